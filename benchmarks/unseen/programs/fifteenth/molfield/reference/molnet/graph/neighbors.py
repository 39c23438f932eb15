import numpy as np


def neighbor_list(positions, cutoff):
    """Directed edges sender -> receiver with the vector from sender to receiver."""
    senders, receivers, vectors = [], [], []
    for i in range(len(positions)):
        for j in range(len(positions)):
            if i == j:
                continue
            vec = positions[i] - positions[j]
            if np.sqrt((vec**2).sum()) < cutoff:
                senders.append(j)
                receivers.append(i)
                vectors.append(vec)
    edges = np.array([senders, receivers], dtype=np.int64).reshape(2, -1)
    return edges, np.array(vectors, dtype=np.float64).reshape(-1, 3)


def random_rotation(rng):
    q, r = np.linalg.qr(rng.standard_normal((3, 3)))
    q = q * np.sign(np.diag(r))
    if np.linalg.det(q) < 0:
        q[:, 0] = -q[:, 0]
    return q
