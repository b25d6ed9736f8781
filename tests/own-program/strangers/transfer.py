"""PyTorch's tutorial on transfer learning: phases of one loop, a frozen backbone that is set free
later, a plateau of the validation's loss, the best weights kept in a folder."""
import os
import time
from tempfile import TemporaryDirectory

import torch
from torch import nn, optim
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset, random_split

import evenstep

torch.manual_seed(0)
draw = torch.Generator().manual_seed(0)


def part(n):
    x = torch.randn(n, 1, 8, 8, generator=draw)
    return TensorDataset(x, (x.mean((1, 2, 3)) > 0).long() + (x.std((1, 2, 3)) > 1).long())


whole = ConcatDataset([part(100), part(44)])
train, val = random_split(whole, [96, 48], generator=torch.Generator().manual_seed(1))
image_datasets = {"train": train, "val": val}
dataloaders = {x: DataLoader(image_datasets[x], batch_size=96 if x == "train" else 16,
                             shuffle=(x == "train")) for x in ["train", "val"]}
dataset_sizes = {x: len(image_datasets[x]) for x in ["train", "val"]}

model_ft = nn.Sequential(
    nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()),
    nn.Linear(24, 10))
for param in model_ft[0].parameters():
    param.requires_grad = False
model_ft[1] = nn.Linear(24, 3)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = optim.SGD(model_ft[1].parameters(), lr=0.2, momentum=0.9)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.05)

model_ft, criterion, optimizer, dataloaders["train"], scheduler = evenstep.prepare(
    model_ft, criterion, optimizer, dataloaders["train"], scheduler)


def train_model(model, criterion, optimizer, scheduler, num_epochs):
    since = time.time()
    with TemporaryDirectory() as tempdir:
        best_path, best_acc = os.path.join(tempdir, "best_model_params.pt"), 0.0
        torch.save(model.state_dict(), best_path)
        for epoch in range(num_epochs):
            if epoch == 3:  # fine-tuning begins
                for param in model[0].parameters():
                    param.requires_grad = True
                optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.01})
                scheduler.min_lrs = [0.0] * len(optimizer.param_groups)
            for phase in ["train", "val"]:
                model.train(phase == "train")
                running_loss, running_corrects = 0.0, 0
                for inputs, labels in dataloaders[phase]:
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        outputs = model(inputs)
                        _, preds = torch.max(outputs, 1)
                        loss = criterion(outputs, labels)
                        if phase == "train":
                            loss.backward()
                            optimizer.step()
                    running_loss += loss.item() * inputs.size(0)
                    running_corrects += torch.sum(preds == labels.data)
                epoch_loss = running_loss / dataset_sizes[phase]
                epoch_acc = running_corrects.double() / dataset_sizes[phase]
                if phase == "val":
                    scheduler.step(epoch_loss)
                    if epoch_acc > best_acc:
                        best_acc = epoch_acc
                        torch.save(model.state_dict(), best_path)
                print(f"{epoch} {phase} Loss: {epoch_loss:.4f} Acc: {epoch_acc:.4f}")
        print(f"{time.time() - since:.0f}s, best {best_acc:.3f}")
        assert len(torch.load(best_path, weights_only=True)) == 4
    return model


train_model(model_ft, criterion, optimizer, scheduler, 6)
