"""The Python client of the service, and what a receiver of its webhooks needs."""

from gdcb.client.errors import BadSignature, ClientError, Refused, Unreachable
from gdcb.client.signing import HEADER, verify

__all__ = ["HEADER", "BadSignature", "ClientError", "Refused", "Unreachable", "verify"]
