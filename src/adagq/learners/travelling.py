"""What of a torch module travels: one rule for the layout, in the learner and in the server's initial arrays.

    trained    parameters that require gradients, in the order of `named_parameters`, tied ones once
    buffers    those in the state dict (BatchNorm's statistics), in the order of `named_buffers`

Frozen parameters and buffers outside the state dict stay where they are. Floating-point tensors of any precision travel
as float32.
"""

from torch import Tensor, nn

from adagq.core.errors import LayoutError
from adagq.core.vectors import Layout


def trained_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained, by name."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def stored_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that belong to the model, by name; others are scratch space."""
    stored = module.state_dict().keys()
    return {name: buffer for name, buffer in module.named_buffers() if name in stored}


def tied_names(module: nn.Module) -> dict[str, str]:
    """Return the further names of trained parameters that have several: other name -> name under which it travels."""
    names = {id(parameter): name for name, parameter in trained_parameters(module).items()}
    every = module.named_parameters(remove_duplicate=False)
    return {other: names[id(p)] for other, p in every if id(p) in names and names[id(p)] != other}


def travelling_state(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that travel, by name: what a server gives as its initial arrays.

    >>> net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)).half()
    >>> _ = net[0].requires_grad_(False)
    >>> {name: str(tensor.dtype) for name, tensor in travelling_state(net).items()}
    {'1.weight': 'torch.float32', '1.bias': 'torch.float32'}
    """
    tensors = {**trained_parameters(module), **stored_buffers(module)}
    return {name: t.detach().float() if t.is_floating_point() else t.detach() for name, t in tensors.items()}


def layout_of(module: nn.Module) -> Layout:
    """Return the layout of what travels; LayoutError if nothing is trained or a tensor is not real."""
    if not trained_parameters(module):
        raise LayoutError("the module has no trainable parameters")
    state = travelling_state(module)
    if complex_ones := [name for name, tensor in state.items() if tensor.is_complex()]:
        raise LayoutError(f"{complex_ones[0]}: complex numbers do not travel, only real ones do")
    return Layout.of(state, buffers=stored_buffers(module))
