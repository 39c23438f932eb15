def accumulate_step(model, optimizer, batch, criterion, pieces):
    model.train()
    (images, order), labels = batch
    optimizer.zero_grad()
    total = 0.0
    for i in range(pieces):
        part = slice(i, None, pieces)
        share = {k: v[part] for k, v in labels.items()}
        loss = criterion(model(images[part], order[part]), share) / pieces
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total
