import paddle


class Yogi(paddle.optimizer.Optimizer):
    """Adam whose second moment moves by steps of (1 - beta2) g^2; the decay is decoupled."""

    def __init__(self, learning_rate, parameters, beta1=0.9, beta2=0.999, epsilon=1e-3, initial=1e-6, decay=0.0):
        super().__init__(learning_rate=learning_rate, parameters=parameters)
        self.beta1, self.beta2 = beta1, beta2
        self.epsilon, self.initial, self.decay = epsilon, initial, decay
        self.slots = {}
        self.count = 0

    @paddle.no_grad()
    def step(self):
        self.count += 1
        rate = self.get_lr()
        fix1 = 1 - self.beta1 ** self.count
        fix2 = 1 - self.beta2 ** self.count
        for p in self._parameter_list:
            g = p.grad
            if g is None:
                continue
            if p.name not in self.slots:
                self.slots[p.name] = (paddle.zeros_like(p), paddle.full_like(p, self.initial))
            m, v = self.slots[p.name]
            g2 = g.square()
            m = self.beta1 * m + (1 - self.beta1) * g
            v = v - (1 - self.beta2) * paddle.sign(v - g2) * g2
            self.slots[p.name] = (m, v)
            update = (m / fix1) / (paddle.sqrt(v / fix2) + self.epsilon)
            p.set_value(p - rate * (update + self.decay * p))
