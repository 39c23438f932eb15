import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from .blocks import AgedAttention, Branch, Time2Vec, fc
from .settings import NET


def zero_order_hold(t, value, valid, query):
    """Latest reading that is not younger than the query; before all of them, the first."""
    past = paddle.logical_and(valid.unsqueeze(1), t.unsqueeze(1) <= query.unsqueeze(2))
    newest = paddle.clip(past.astype("int64").sum(axis=-1) - 1, min=0)
    return paddle.take_along_axis(value, newest, axis=1)


class TrackFuser(nn.Layer):
    def __init__(self, width, time_features, n_head, p_drop, periods, norm_eps):
        super().__init__()
        self.time_code = Time2Vec(time_features, periods)
        self.branch = nn.LayerDict({s: Branch(width, time_features, norm_eps) for s in ("a", "b")})
        self.source = nn.Embedding(2, width, weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, 0.02)))
        self.question = fc(time_features + width, width)
        self.attend = AgedAttention(width, n_head, p_drop)
        self.ln = nn.LayerNorm(width, epsilon=norm_eps)
        self.fc1 = fc(width, 2 * width)
        self.fc2 = fc(2 * width, width)
        self.drop = nn.Dropout(p_drop)
        self.readout = fc(width, 2, I.Normal(0.0, 0.05), I.Constant(0.0))

    def forward(self, a_time, a_value, a_len, b_time, b_value, b_len, query):
        memory, final, stamps, valid = [], [], [], []
        feeds = {"a": (a_time, a_value, a_len), "b": (b_time, b_value, b_len)}
        for i, (name, (t, value, n)) in enumerate(feeds.items()):
            states, last = self.branch[name](t, value, n, self.time_code(t))
            memory.append(states + self.source.weight[i])
            final.append(last)
            stamps.append(t)
            valid.append(paddle.arange(t.shape[1]).unsqueeze(0) < n.unsqueeze(1))
        age = query.unsqueeze(-1) - paddle.concat(stamps, axis=1).unsqueeze(1)
        summary = paddle.stack(final).mean(axis=0)
        summary = summary.unsqueeze(1).expand([-1, query.shape[1], -1])
        x = self.question(paddle.concat([self.time_code(query), summary], axis=-1))
        x = x + self.attend(x, paddle.concat(memory, axis=1), age, paddle.concat(valid, axis=1))
        x = x + self.fc2(self.drop(F.gelu(self.fc1(self.ln(x)))))
        y = self.readout(x)
        mean = y[..., 0] + zero_order_hold(a_time, a_value, valid[0], query)
        return paddle.stack([mean, F.softplus(y[..., 1] - 4.0)], axis=-1)


def create():
    return TrackFuser(**NET)
