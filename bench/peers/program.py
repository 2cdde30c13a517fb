"""One program of Mica's that computes a workload."""


class Program:
    def __init__(self, file, inputs=None, **sizes):
        self.file = file
        self.inputs = inputs or (lambda *a: a)
        self.sizes = sizes

    def words(self):
        """As arguments of `mica optimize`."""
        return [self.file] + [x for k, v in self.sizes.items() for x in ("--set", "%s=%d" % (k, v))]
