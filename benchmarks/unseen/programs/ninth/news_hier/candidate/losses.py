import paddle
import paddle.nn.functional as F


def focal_loss(logits, labels, class_weights, gamma):
    """Mean over the batch, each document counting by its class weight."""
    labels = labels.astype("int64")
    one_hot = F.one_hot(labels, logits.shape[-1]).astype(logits.dtype)
    log_p = paddle.sum(F.log_softmax(logits, axis=-1) * one_hot, axis=-1)
    alpha = paddle.to_tensor(class_weights, dtype=logits.dtype)[labels]
    focus = paddle.pow(1.0 - paddle.exp(log_p), gamma)
    return paddle.sum(-alpha * focus * log_p) / paddle.sum(alpha)


def concentration(weights):
    return paddle.mean(paddle.sum(paddle.square(weights), axis=-1))


def criterion(outputs, labels, config):
    focal = focal_loss(outputs["logits"], labels, config.class_weights, config.gamma)
    concentrated = concentration(outputs["sentence_attention"])
    return {"loss": focal + config.concentration * concentrated, "focal": focal, "concentrated": concentrated}
