"""The registry of selections. A new one is a file here and a line in each of the two tables."""

from typing import Annotated

from pydantic import Field

from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.selectors.by_examples import ByExamples, ByExamplesSettings
from fedhpc.federation.selectors.everybody import Everybody, EverybodySelection
from fedhpc.federation.selectors.oort import Oort, OortSettings
from fedhpc.federation.selectors.priority import Priority, PrioritySettings
from fedhpc.federation.selectors.selector import Selector
from fedhpc.federation.selectors.uniform import Uniform, UniformSettings

AnySelection = UniformSettings | ByExamplesSettings | PrioritySettings | OortSettings | EverybodySelection
Selection = Annotated[AnySelection, Field(discriminator="kind")]


def make_selector(selection: AnySelection, client: ClientSettings) -> Selector:
    """The selector that these settings ask for, at the start of a federation of clients with that work."""
    match selection:
        case UniformSettings():
            return Uniform()
        case ByExamplesSettings():
            return ByExamples()
        case PrioritySettings():
            return Priority(selection)
        case OortSettings():
            return Oort(selection, client)
        case EverybodySelection():
            return Everybody()
