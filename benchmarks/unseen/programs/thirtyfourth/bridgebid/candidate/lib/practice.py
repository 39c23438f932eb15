"""Optimizer, rate, and a step that takes its batch in two halves."""
import paddle

from .judge import loss

PEAK, WIDTH, WARM = 0.06, 32, 12


def noam(step):
    return WIDTH ** -0.5 * min((step + 1) ** -0.5, (step + 1) * WARM ** -1.5)


def adam(net):
    rate = paddle.optimizer.lr.LambdaDecay(PEAK, noam)
    return paddle.optimizer.Adam(learning_rate=rate, beta1=0.9, beta2=0.95, epsilon=1e-7,
                                 parameters=net.parameters(), weight_decay=1e-3)


def halves(batch, rows):
    middle = (rows + 1) // 2
    for part in (slice(0, middle), slice(middle, rows)):
        labels = {key: value[part] for key, value in batch["labels"].items()}
        inputs = {key: value[part] for key, value in batch.items() if key != "labels"}
        if inputs["calls"].shape[0]:
            yield inputs, labels


def step(net, optimizer, batch):
    rows = batch["calls"].shape[0]
    total = 0.0
    for inputs, labels in halves(batch, rows):
        share = inputs["calls"].shape[0] / rows
        value = share * loss(net(**inputs), labels)["loss"]
        value.backward()
        total = total + value.detach()
    norm = paddle.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": total, "norm": norm}
