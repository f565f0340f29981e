"""Access: who may do what, how they show who they are, and what was changed by whom.

`open_books` opens the database; people, keys, grants and links are functions of the books. `Door`
finds out who sent a request, `require` asks whether they may, `Limiter` whether they may so often.
"""

from gdcb.service.access.books import Books, Line, open_books, read_log
from gdcb.service.access.door import Door
from gdcb.service.access.errors import (
    AccessError,
    Forged,
    NotAllowed,
    NotSignedIn,
    SignInRefused,
    TooMany,
)
from gdcb.service.access.headers import security_headers
from gdcb.service.access.keys import Key, add_key, list_keys, revoke_key
from gdcb.service.access.links import (
    console_link,
    first_link,
    known_base,
    link_opens,
    make_link,
    remember_base,
)
from gdcb.service.access.lockout import LockOut
from gdcb.service.access.passwords import Cost, set_password
from gdcb.service.access.people import (
    Person,
    add_person,
    end_person,
    grant,
    list_people,
    person_by_login,
    person_of,
    revoke,
)
from gdcb.service.access.rates import Limiter, Rate, RateLimits
from gdcb.service.access.roles import CONSOLE, EVERY, FOR_KEYS, ROLES, Grant, Principal, require
from gdcb.service.access.sessions import SessionLimits, end_sessions, tidy
from gdcb.service.access.tables import create_tables
from gdcb.service.access.tokens import NewKey

__all__ = [
    "CONSOLE",
    "EVERY",
    "FOR_KEYS",
    "ROLES",
    "AccessError",
    "Books",
    "Cost",
    "Door",
    "Forged",
    "Grant",
    "Key",
    "Limiter",
    "Line",
    "LockOut",
    "NewKey",
    "NotAllowed",
    "NotSignedIn",
    "Person",
    "Principal",
    "Rate",
    "RateLimits",
    "SessionLimits",
    "SignInRefused",
    "TooMany",
    "add_key",
    "add_person",
    "console_link",
    "create_tables",
    "end_person",
    "end_sessions",
    "first_link",
    "grant",
    "known_base",
    "link_opens",
    "list_keys",
    "list_people",
    "make_link",
    "open_books",
    "person_by_login",
    "person_of",
    "read_log",
    "remember_base",
    "require",
    "revoke",
    "revoke_key",
    "security_headers",
    "set_password",
    "tidy",
]
