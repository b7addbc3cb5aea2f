"""Tables written to files, and processes that read them."""

import pytest


@pytest.fixture(params=[".tsv", ".parquet"])
def save(tmp_path, request):
    """Write a frame under a name, in each of the formats but .csv, which the fixture `csv` writes."""

    def write(table, name="table"):
        path = tmp_path / (name + request.param)
        if request.param == ".parquet":
            table.to_parquet(path, index=False)
        else:
            table.to_csv(path, index=False, sep="\t")
        return path

    return write


@pytest.fixture
def csv(tmp_path):
    """Write text or bytes to a file."""

    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def in_three_processes(processes):
    """Call a function in three processes at the same time: what each of them puts into a queue, its last argument."""

    def call(target, *arguments):
        done = processes.SimpleQueue()
        members = [processes.Process(target=target, args=(*arguments, done)) for _ in range(3)]
        for member in members:
            member.start()
        for member in members:
            member.join(30)
        assert [member.exitcode for member in members] == [0, 0, 0]
        return [done.get() for _ in members]

    return call
