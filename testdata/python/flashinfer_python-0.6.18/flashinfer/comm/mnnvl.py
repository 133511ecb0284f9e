import abc


class CommBackend(abc.ABC):
    @abc.abstractmethod
    def Get_rank(self): ...

    @abc.abstractmethod
    def Get_size(self): ...

    @abc.abstractmethod
    def allgather(self, data): ...

    @abc.abstractmethod
    def bcast(self, data, root): ...

    @abc.abstractmethod
    def barrier(self): ...

    @abc.abstractmethod
    def Split(self, color, key): ...


class MnnvlConfig:
    def __init__(self, comm_backend=None, allocation_granularity=0, fabric_page_size=1 << 29):
        assert isinstance(comm_backend, CommBackend)
        self.comm_backend = comm_backend
