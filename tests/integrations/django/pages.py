"""The pages of the tests' project. Each tells how often something was computed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.cache import cache_page

if TYPE_CHECKING:
    from django.http import HttpRequest

computed = itertools.count(1)


@cache_page(60)
def page(request: HttpRequest) -> HttpResponse:
    """A page that is cached as a whole."""
    response = HttpResponse(f"page {next(computed)}")
    response.set_cookie("flavour", "plain")
    return response


@cache_page(60)
def large(request: HttpRequest) -> HttpResponse:
    """A page that is larger than most caches allow."""
    return HttpResponse(b"x" * 20_000_000)


def fragment(request: HttpRequest) -> HttpResponse:
    """A page of which a part is cached."""
    return render(request, "fragment.html", {"count": next(computed)})


def visits(request: HttpRequest) -> HttpResponse:
    """A page that knows who was there before."""
    request.session["visits"] = request.session.get("visits", 0) + 1
    return HttpResponse(str(request.session["visits"]))


urlpatterns = [
    path("page", page),
    path("large", large),
    path("fragment", fragment),
    path("visits", visits),
]
