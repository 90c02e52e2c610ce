"""Who asks, and what they may: a token, a cookie or a user's header, and namespaces."""

import dataclasses
from collections.abc import Collection
from email.message import Message

from tests.contract_server import refusals

_NO_USER = "Request header error: there is no user identity header."


@dataclasses.dataclass
class Access:
    """What is asked of a request.

    Attributes:
        token: The bearer token that every request must have; empty to ask none.
        cookie: Likewise the cookie, as `name=value`.
        multi_user: Whether namespaces are kept apart.
        namespaces: Those that whoever is let in may use; of no meaning for a single user.
    """

    token: str
    cookie: str
    multi_user: bool
    namespaces: Collection[str]

    def require_entry(self, headers: Message) -> None:
        """Does what the proxy in front of a cluster does.

        Raises:
            Refusal: The token or the cookie is not the right one.
        """
        given = headers.get("Authorization", "")
        if self.token and given != f"Bearer {self.token}":
            raise refusals.Refusal(401, 16, "Unauthenticated: the request has no valid bearer token")
        cookies = [part.strip() for part in headers.get("Cookie", "").split(";")]
        if self.cookie and self.cookie not in cookies:
            raise refusals.Refusal(401, 16, "Unauthenticated: the request has no valid session cookie")

    def user(self, headers: Message) -> str:
        """Who asks; empty for a single user.

        Raises:
            Refusal: Nobody says.
        """
        if not self.multi_user:
            return ""
        named = headers.get("kubeflow-userid", "")
        if named:
            return named
        if headers.get("Cookie") or headers.get("Authorization", "").startswith("Bearer "):
            return "user@example.com"
        raise refusals.unauthenticated(_NO_USER)

    def require(self, user: str, namespace: str, verb: str, resource: str) -> None:
        """Refuses what the user may not do in a namespace.

        Raises:
            Refusal: There is no namespace, or it is not theirs.
        """
        if not self.multi_user:
            return
        if not namespace:
            raise refusals.invalid("Namespace cannot be empty in the multi-user mode")
        if namespace not in self.namespaces:
            attributes = (
                f"Namespace:{namespace},Verb:{verb},Group:pipelines.kubeflow.org,Version:v1beta1,"
                f"Resource:{resource},Subresource:,Name:,"
            )
            raise refusals.permission_denied(
                f"User '{user}' is not authorized with reason:  (request: &ResourceAttributes{{{attributes}}})"
            )
