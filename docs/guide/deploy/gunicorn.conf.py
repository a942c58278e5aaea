# The master opens the cache once, and its workers inherit the handle.
preload_app = True
workers = 4
max_requests = 1000
max_requests_jitter = 100
# For gunicorn's own files, where the root cannot be written to.
worker_tmp_dir = "/dev/shm"
# This socket would be in the home directory, which the user of a container may not have.
control_socket_disable = True
