import torch


def run_step(model, optimizer, batch, criterion, clip):
    feats, labels = batch
    model.train()
    optimizer.zero_grad()
    loss = criterion(model(feats), labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.item()
