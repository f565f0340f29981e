"""Everything that can be asked of the service, once for both clients.

A method says what is asked; how it is sent, `One` and `Many` are those of the client: what comes
back is a dictionary (or a list of them) from `Client`, and something to await from `AsyncClient`.
Dictionaries are as the service's API describes them, and there is a method for each of its routes.

A key has the roles decide, outcome, operate and audit at most. What needs the role approve or
administer needs a person: to a key it is refused (403), and so says the method.
"""

from __future__ import annotations

from gdcb.client.asking import Many, One
from gdcb.client.deciding import Deciding
from gdcb.client.operating import Operating


class Surface(Deciding[One, Many], Operating[One, Many]):
    """The methods of a client."""
