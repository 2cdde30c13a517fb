class PersistentKernel:
    pass
