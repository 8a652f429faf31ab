"""Import of torch, once for all workers, before they are forked."""

import gc
import os
import tempfile


def import_torch(trains):
    """Import torch, and return its version. No computation is done, so that no thread exists before the forks.

    trains: a training step will be done, for which torch imports its compiler. That takes as long again, and every rank
    would import it if it were not imported before workers are forked.

    Garbage collection is off meanwhile: there is no garbage, and the search for it takes a quarter of the time. Workers
    do not search the imported objects either, which would make them copy all of these.
    """
    gc.disable()
    try:
        return _import(trains)
    finally:
        freeze = getattr(gc, "freeze", None)  # Python 3.7
        if freeze:
            freeze()
        gc.enable()


def _import(trains):
    import torch
    import torch.distributed

    if not torch.distributed.is_available():
        raise ImportError("this torch is built without torch.distributed")
    if trains:
        # The import makes this directory, and puts nothing there. A job's own directory, or an existing one, leaves no
        # trace.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir())
        try:
            import torch._dynamo
        except Exception:
            pass  # an old torch has none; a broken one fails in the training step, as in a job
    return {"torch": str(torch.__version__)}
