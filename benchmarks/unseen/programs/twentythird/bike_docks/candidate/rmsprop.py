"""RMSprop with eps outside of the root (Paddle's own has it inside)."""
import paddle
from paddle.optimizer import Optimizer


class TorchRMSprop(Optimizer):
    def __init__(self, learning_rate, parameters, rates, alpha=0.99, eps=1e-8, momentum=0.0, weight_decay=0.0):
        super().__init__(learning_rate=learning_rate, parameters=list(parameters))
        self.rates = rates                      # relative rate by parameter name
        self.alpha, self.eps, self.mu, self.wd = alpha, eps, momentum, weight_decay
        self.square = {p.name: paddle.zeros_like(p) for p in parameters}
        self.buffer = {p.name: paddle.zeros_like(p) for p in parameters}

    @paddle.no_grad()
    def step(self):
        lr = self.get_lr()
        for p in self._parameter_list:
            if p.grad is None:
                continue
            g = p.grad + self.wd * p
            sq, buf = self.square[p.name], self.buffer[p.name]
            sq.set_value(self.alpha * sq + (1 - self.alpha) * g * g)
            buf.set_value(self.mu * buf + g / (paddle.sqrt(sq) + self.eps))
            p.set_value(p - lr * self.rates.get(p.name, 1.0) * buf)

    def state_dict(self):
        state = {"square." + k: v for k, v in self.square.items()}
        state.update({"buffer." + k: v for k, v in self.buffer.items()})
        if isinstance(self._learning_rate, paddle.optimizer.lr.LRScheduler):
            state["LR_Scheduler"] = self._learning_rate.state_dict()
        return state

    def set_state_dict(self, state):
        for k in self.square:
            self.square[k].set_value(state["square." + k])
            self.buffer[k].set_value(state["buffer." + k])
        if "LR_Scheduler" in state:
            self._learning_rate.set_state_dict(state["LR_Scheduler"])
