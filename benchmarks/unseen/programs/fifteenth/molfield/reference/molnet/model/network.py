import torch
from torch import nn

from .layers import AttentionPool, ForceHead, Interaction, mlp
from .radial import CosineCutoff, GaussianBasis
from .scatter import scatter_sum


class MolNet(nn.Module):
    def __init__(self, cfg, num_species, cutoff):
        super().__init__()
        self.embedding = nn.Embedding(num_species, cfg.channels)
        self.atom_ref = nn.Embedding(num_species, 1)
        self.basis = GaussianBasis(cfg.num_rbf, cutoff)
        self.cutoff = CosineCutoff(cutoff)
        self.interactions = nn.ModuleList(
            Interaction(cfg.channels, cfg.num_rbf, cfg.mean_degree)
            for _ in range(cfg.interactions)
        )
        self.atom_energy = mlp(cfg.channels, cfg.channels // 2, 1)
        self.pool = AttentionPool(cfg.channels, cfg.pool_channels)
        self.pool_out = nn.Linear(cfg.pool_channels, 1)
        self.force_head = ForceHead(cfg.channels, cfg.num_rbf)
        self.reset_parameters()

    def reset_parameters(self):
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.orthogonal_(m.weight)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.zeros_(self.atom_ref.weight)

    def forward(self, batch):
        graph, edges = batch["graph"], batch["edges"]
        num_graphs = batch["sizes"].shape[0]
        dist = torch.linalg.norm(batch["vectors"], dim=-1)
        unit = batch["vectors"] / dist[:, None]
        rbf, envelope = self.basis(dist), self.cutoff(dist)

        x = self.embedding(batch["species"])
        for block in self.interactions:
            x = block(x, edges, rbf, envelope, graph, num_graphs)

        atoms = self.atom_energy(x) + self.atom_ref(batch["species"])
        energy = scatter_sum(atoms.squeeze(-1), graph, num_graphs)
        pooled = self.pool_out(self.pool(x, graph, num_graphs)).squeeze(-1)
        forces = self.force_head(x, edges, rbf, envelope, unit)
        return {"energy": energy + pooled, "forces": forces}
