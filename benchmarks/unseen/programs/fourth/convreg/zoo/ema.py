import copy

import paddle
import paddle.nn as nn


class Averaged(nn.Layer):
    """network with an exponential moving average of parameters and statistics"""

    def __init__(self, net, decay=0.95):
        super().__init__()
        self.decay = decay
        self.net = net
        self.shadow = copy.deepcopy(net)
        for p in self.shadow.parameters():
            p.stop_gradient = True

    def forward(self, x):
        return self.net(x)

    @paddle.no_grad()
    def absorb(self):
        live = self.net.state_dict()
        for name, mean in self.shadow.state_dict().items():
            mean.set_value(mean * self.decay + live[name] * (1.0 - self.decay))
