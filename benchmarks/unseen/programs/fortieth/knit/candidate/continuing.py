import os

import numpy as np
import paddle
import paddle.nn.functional as F

from .reader import charts
from .samples import SEEN, Yarn


@paddle.no_grad()
def continue_chart(path, net, rows=3):
    name = os.path.splitext(os.path.basename(path))[0]
    chart = {c.name: c for c in charts()}[name]
    yarn = Yarn()
    done = chart.rows()
    sure = np.zeros(rows)
    for i in range(rows):
        facts = paddle.to_tensor(yarn.facts(chart, len(done))).unsqueeze(0).astype(net.again.dtype)
        scores, _ = net(paddle.to_tensor(done[-SEEN:]).unsqueeze(0), facts)
        share = F.softmax(scores.squeeze(0), axis=-1)
        sure[i] = float(share.max(axis=-1).mean())
        done = np.concatenate([done, share.argmax(axis=-1, keepdim=True).numpy().T])
    return {"rows": done[-rows:], "sure": sure}
