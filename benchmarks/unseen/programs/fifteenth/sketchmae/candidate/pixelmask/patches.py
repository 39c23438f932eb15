import paddle


def split(images, patch):
    batch, channels, height, width = images.shape
    rows, columns = height // patch, width // patch
    x = images.reshape([batch, channels, rows, patch, columns, patch])
    x = x.transpose([0, 2, 4, 3, 5, 1])
    return x.reshape([batch, rows * columns, patch * patch * channels])


def join(patches, patch):
    batch, count, _ = patches.shape
    grid = round(count ** 0.5)
    x = patches.reshape([batch, grid, grid, patch, patch, 3])
    return x.transpose([0, 5, 1, 3, 2, 4]).reshape([batch, 3, grid * patch, grid * patch])


def centre_and_spread(patches):
    centre = paddle.mean(patches, axis=-1, keepdim=True)
    variance = paddle.var(patches, axis=-1, unbiased=True, keepdim=True)
    return centre, paddle.sqrt(variance + 1e-6)


def masked_error(predicted, labels, patch):
    wanted = split(labels["image"], patch)
    centre, spread = centre_and_spread(wanted)
    wanted = (wanted - centre) / spread
    error = paddle.square(predicted - wanted).mean(axis=-1)
    hidden = labels["mask"]
    return (error * hidden).sum() / hidden.sum()


def fill_in(predicted, images, hidden, patch):
    known = split(images, patch)
    centre, spread = centre_and_spread(known)
    guessed = predicted * spread + centre
    return join(paddle.where(hidden.unsqueeze(-1) > 0, guessed, known), patch)
