import paddle


class Leader:
    """FTRL-proximal, coordinate by coordinate."""

    def __init__(self, parameters, rate, beta, l1, l2):
        self.parameters, self.rate, self.beta, self.l1, self.l2 = list(parameters), rate, beta, l1, l2
        self.memory = {}

    @paddle.no_grad()
    def step(self):
        for p in self.parameters:
            if p.grad is None:
                continue
            g = p.grad
            z, n = self.memory.get(p.name, (paddle.zeros_like(p), paddle.zeros_like(p)))
            grown = n + g.square()
            z = z + g - (grown.sqrt() - n.sqrt()) * p / self.rate
            self.memory[p.name] = z, grown
            shrunk = soft_threshold(z, self.l1)
            p.set_value(-shrunk * self.rate / (self.beta + grown.sqrt() + self.rate * self.l2))

    def clear_grad(self):
        for p in self.parameters:
            p.clear_grad()


def soft_threshold(z, threshold):
    return paddle.sign(z) * (z.abs() - threshold).clip(min=0)


class Both:
    def __init__(self, net):
        wide = net.wide.parameters()
        known = {id(p) for p in wide}
        self.leader = Leader(wide, rate=0.05, beta=1.0, l1=0.02, l2=0.1)
        self.adagrad = paddle.optimizer.Adagrad(0.02, epsilon=1e-7, parameters=[p for p in net.parameters() if id(p) not in known],
                                                weight_decay=1e-3, initial_accumulator_value=0.1)

    def get_lr(self):
        return self.adagrad.get_lr()

    def step(self):
        self.leader.step()
        self.adagrad.step()

    def clear_grad(self):
        self.leader.clear_grad()
        self.adagrad.clear_grad()
