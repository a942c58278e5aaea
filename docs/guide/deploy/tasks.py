"""Celery tasks that use the web application's cache."""

import os

from celery import Celery
from tuckbox import Cache

app = Celery("tasks", broker=os.environ.get("BROKER_URL"))
app.conf.worker_max_tasks_per_child = 1000
cache = Cache(os.environ["APP_CACHE"], size="64 MiB")


@app.task
def forget(path):
    cache.delete(("visits", path))
