"""View caches: layout, continuing a killed job, shards, and errors."""

import csv
import json
import os
import signal

import numpy as np
import pytest
import torch
from view_cache_toys import ROWS, Toy, job, record

from refusals import refusal
from viewsmith.core.tensors import derive_seed, load_tensors, save_tensors
from viewsmith.data.options import LARGEST_LEVEL, check_noise, parse_shard
from viewsmith.data.view_cache import ViewCacheFolder, merge_folders
from viewsmith.methods.genview.parts import find_levels
from viewsmith.views.generated import noise_level


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished cache, written without interruption."""
    return job(tmp_path_factory.mktemp("cache") / "cache")[0]


def bits(cache):
    """Content of all files of a finished cache."""
    files = [path for path in sorted(cache.path.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(cache.path)): path.read_bytes() for path in files}


def test_the_layout(whole):
    assert set(bits(whole)) == {
        "view_cache.json",
        "levels.safetensors",
        "manifest.csv",
        *(f"blocks/{number:06d}.safetensors" for number in range(6)),
    }
    views = whole.read("views")
    assert views.shape == (22, 2, 3)
    tolerance, level = whole.read_levels()
    # Each view depends only on its seed, in any order of the samples.
    for row in (0, 7, 21):
        for view in range(2):
            view_stream = torch.Generator().manual_seed(derive_seed(3, "view", row, view))
            assert torch.equal(views[row, view], ROWS[row] + level[row, view] + torch.randn(3, generator=view_stream))
    with whole.manifest.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 44
    line = lines[2 * 13 + 1]
    assert line == {
        "sample": "13",
        "view": "1",
        "seed": str(derive_seed(3, "view", 13, 1)),
        "level": str(int(level[13, 1])),
        "tolerance": str(float(tolerance[13])),
        "quality": str(float((views[13, 1] - ROWS[13]).mean())),
        "block": "3",
        "generator": "toy",
        "version": "1",
    }
    assert json.loads(whole.record_file.read_text())["seed"] == 3


def test_views_are_read_by_index_as_from_memory(whole):
    views, rng = whole.read("views").numpy(), np.random.default_rng(0)
    sources = whole.sources()
    assert [source.shape for source in sources] == [(22, 3)] * 2 and len(whole.sources(1)) == 1
    for number, source in enumerate(sources):
        expected = views[:, number]
        for key in (slice(None), slice(3, 9), slice(5, 5), slice(20, 30), [21], [0, 21, 7, 7], [], 13, np.int64(4)):
            assert np.array_equal(source[key], expected[key]), key
        for size in (5, 22, 60):
            index = rng.integers(0, 22, size)
            assert np.array_equal(source[index], expected[index])
    assert "has 2: request at most 2" in refusal(whole.sources, 3)


def test_images_in_a_cache_are_read_as_stored(tmp_path):
    cache = ViewCacheFolder(tmp_path)
    cache.open_for(record(rows=5, block=2, views_per_sample=3))
    views = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (5, 3, 4, 6, 1), dtype=np.uint8))
    cache.write_levels(torch.zeros(5, dtype=torch.float64), torch.zeros(5, 3, dtype=torch.int64), torch.zeros(0))
    for number in cache.numbers():
        rows, none = cache.rows_of(number), torch.zeros(len(cache.rows_of(number)), 3)
        cache.write_block(number, views[rows], seed=none, level=none, quality=none)
    sources = cache.sources()
    assert len(sources) == 3
    for number, source in enumerate(sources):
        assert source.dtype == np.uint8 and np.array_equal(source[[4, 0, 3]], views[[4, 0, 3], number])


def test_a_block_that_changes_while_it_is_read_is_an_error(tmp_path):
    cache, _ = job(tmp_path / "cache")
    source = cache.sources()[0]
    content = cache.block(1).read_bytes()
    cache.block(1).write_bytes(content)
    os.utime(cache.block(1), ns=(1, 1))
    assert "000001.safetensors was changed while it was read" in refusal(source.__getitem__, [5])
    assert np.array_equal(source[[0, 9]], cache.read("views")[[0, 9], 0])  # other blocks
    cache.block(0).unlink()
    assert "000000.safetensors was changed" in refusal(source.__getitem__, [0])


def test_blocks_of_different_shapes_are_refused(tmp_path):
    cache, _ = job(tmp_path / "cache")
    block = load_tensors(cache.block(3))
    save_tensors(cache.block(3), block | {"views": block["views"][..., :2]})
    assert "000003.safetensors has views of shape (2, 2)" in refusal(cache.sources)


def test_a_finished_cache_is_not_changed(whole):
    before = bits(whole)
    _, toy = job(whole.path)
    assert toy.calls == 0 and bits(whole) == before


MOMENTS = [("kill", 1), ("kill", 5), *(("write", (1, when)) for when in ("before", "half", "after"))]
MOMENTS += [("write", (2, "half")), ("write", (4, "before")), ("write", (7, "after"))]


@pytest.mark.parametrize(("how", "moment"), MOMENTS)
def test_a_killed_job_is_continued_to_identical_files(processes, tmp_path, whole, how, moment):
    process = processes.Process(target=job, args=(tmp_path / "cache",), kwargs={how: moment})
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    there = {path.name for path in (tmp_path / "cache" / "blocks").glob("[0-9]*")}
    cache, toy = job(tmp_path / "cache")
    assert bits(cache) == bits(whole)
    # Existing blocks are not generated again.
    assert sorted(set(toy.seen)) == [row for row in range(22) if f"{row // 4:06d}.safetensors" not in there]


def test_another_process_may_create_the_cache_at_the_same_moment(tmp_path, whole, monkeypatch):
    look = ViewCacheFolder.exists

    def look_before_it_is_created(cache):
        found = look(cache)
        if not found:
            monkeypatch.undo()
            job(cache.path)
        return found

    monkeypatch.setattr(ViewCacheFolder, "exists", look_before_it_is_created)
    cache = ViewCacheFolder(tmp_path / "cache")
    cache.open_for(record())
    assert bits(cache) == bits(whole)


def test_shards_in_one_folder_and_in_several(tmp_path, whole):
    for part in (3, 1, 2):
        job(tmp_path / "one", shard=(part, 3))
        _, toy = job(tmp_path / f"part{part}", shard=(part, 3))
        assert {row // 4 % 3 for row in toy.seen} == {part - 1}
        assert not ViewCacheFolder(tmp_path / f"part{part}").manifest.exists()
    assert bits(ViewCacheFolder(tmp_path / "one")) == bits(whole)
    merged = merge_folders([tmp_path / f"part{part}" for part in (1, 2, 3)], tmp_path / "merged")
    assert bits(merged) == bits(whole)


def test_shards_with_different_levels_are_not_merged(tmp_path):
    """On machines with different rounding, levels may differ although the records are equal."""
    one, other = (job(tmp_path / name, shard=(number, 2))[0] for number, name in enumerate("ab", start=1))
    tolerance, level = other.read_levels()
    level[7, 1] = (level[7, 1] + 100) % 500
    other.write_levels(tolerance, level, other.read_axis())
    message = refusal(merge_folders, [one.path, other.path], tmp_path / "c")
    assert "noise levels of 1 of 22 rows" in message and str(other.path) in message and "--run" in message
    assert not (tmp_path / "c").exists()
    other.levels.unlink()  # a shard that was stopped before it wrote levels
    merge_folders([one.path, other.path], tmp_path / "c")


def test_each_view_has_a_separate_random_level(tmp_path):
    cache, _ = job(tmp_path / "cache", noise="random", views_per_sample=3)
    level = cache.read("level")
    assert (level[:, 0] != level[:, 1]).any() and (level[:, 1] != level[:, 2]).any()
    streams = [[torch.Generator().manual_seed(seed) for seed in row] for row in cache.seeds(torch.arange(22))]
    for view in range(3):
        noise = torch.stack([torch.randn(3, generator=row[view]) for row in streams])
        torch.testing.assert_close(cache.read("views")[:, view], ROWS + level[:, view, None] + noise)


def test_views_are_chosen_among_candidates(tmp_path):
    """Of six candidates the two that the rule names, with their seeds and levels; the sample where it names none."""
    cache, _ = job(tmp_path / "cache", candidates=3)
    views, seed, level, quality = (cache.read(name) for name in ("views", "seed", "level", "quality"))
    assert views.shape == (22, 2, 3) and seed.shape == level.shape == quality.shape == (22, 2)
    levels = cache.read_levels()[1]
    for row in range(22):
        seeds = [derive_seed(3, "view", row, view) for view in range(6)]
        noise = [torch.randn(3, generator=torch.Generator().manual_seed(one)) for one in seeds]
        order = sorted(range(6), key=lambda c, noise=noise: -float(noise[c].sum()))[:2]
        for view, number in enumerate([-1, -1] if row == 5 else order):
            expected = ROWS[row] if row == 5 else ROWS[row] + levels[row, 0] + noise[number]
            torch.testing.assert_close(views[row, view], expected)
            assert int(seed[row, view]) == (-1 if row == 5 else seeds[number])
            assert int(level[row, view]) == (-1 if row == 5 else int(levels[row, 0]))
            torch.testing.assert_close(quality[row, view], (views[row, view] - ROWS[row]).mean())
    with cache.manifest.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["seed"] for line in lines[10:12]] == ["-1", "-1"]
    assert ViewCacheFolder(tmp_path / "cache").read_record()["candidates"] == 3
    assert job(tmp_path / "plain")[0].read_record()["candidates"] == 1


def test_candidates_after_a_stop_and_in_shards(tmp_path):
    whole, _ = job(tmp_path / "whole", candidates=3)
    for part in (1, 2):
        job(tmp_path / "cache", candidates=3, shard=(part, 2))
    assert bits(ViewCacheFolder(tmp_path / "cache")) == bits(whole)
    assert "candidates is 3 there, 1 now" in refusal(job, tmp_path / "cache", candidates=1)


def test_shards_of_different_caches_are_not_merged(tmp_path):
    job(tmp_path / "a", shard=(1, 2))
    job(tmp_path / "b", shard=(2, 2), seed=4)
    assert "seed is 3 there, 4 now" in refusal(merge_folders, [tmp_path / "a", tmp_path / "b"], tmp_path / "c")


def test_another_block_size_gives_the_same_views(tmp_path, whole):
    cache, _ = job(tmp_path / "cache", block=7)
    assert torch.equal(cache.read("views"), whole.read("views"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"seed": 4}, "seed is 3 there, 4 now"),
        ({"rows": 21}, "rows is 22 there, 21 now"),
        ({"generator": {"name": "toy", "version": "2"}}, "generator: version is '1' there, '2' now"),
        ({"data": {"fingerprint": "xyz"}}, "data: fingerprint"),
    ],
)
def test_another_cache_in_the_folder_is_refused(whole, changes, expected):
    before = bits(whole)
    assert expected in refusal(whole.open_for, record(**changes))
    assert bits(whole) == before


def test_folders_that_are_not_caches(tmp_path):
    assert "is not a folder" in refusal(ViewCacheFolder(tmp_path / "none").read, "views")
    assert "no view_cache.json" in refusal(ViewCacheFolder(tmp_path).read_record)
    (tmp_path / "thesis.txt").write_text("keep me")
    assert "is not a view cache" in refusal(ViewCacheFolder(tmp_path).open_for, record())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_missing_and_damaged_blocks(tmp_path):
    cache, _ = job(tmp_path / "cache", shard=(1, 2))
    for read in (lambda: cache.read("views"), cache.sources):
        assert "lacks 3 of 6 blocks" in refusal(read)
    job(tmp_path / "cache")
    content = cache.block(2).read_bytes()
    cache.block(2).write_bytes(content[:-5])
    for read in (lambda: cache.read("views"), cache.sources):
        assert "000002.safetensors is damaged" in refusal(read)
    flipped = content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]
    cache.block(2).write_bytes(flipped)
    for read in (lambda: cache.read("views"), cache.sources):
        assert "000002.safetensors is damaged (its content does not match its checksum)" in refusal(read)
    assert "checksum" in refusal(merge_folders, [cache.path], tmp_path / "merged")
    cache.block(2).write_bytes(cache.block(1).read_bytes())
    for read in (lambda: cache.read("views"), cache.sources):
        assert "its rows are not those of the block" in refusal(read)
    cache.block(2).unlink()
    job(tmp_path / "cache")
    assert cache.block(2).read_bytes() == content
    cache.record_file.write_text("{")
    assert "damaged" in refusal(cache.read_record)
    cache.record_file.write_text('{"layout": 2}')
    assert "not complete" in refusal(cache.read_record)


def test_levels_of_every_noise():
    toy = Toy()
    tolerance, level, axis = find_levels(record(), ROWS, toy)
    assert torch.equal(tolerance, toy.noise_tolerance(ROWS, False)[0]) and torch.equal(axis, torch.arange(2.0))
    assert level[:, 0].tolist() == [min(400, max(0, -(-5 * row // 21) - 1) * 100) for row in range(22)]
    assert torch.equal(level[:, 0], level[:, 1])
    tolerance, level, axis = find_levels(record(noise="constant:300"), ROWS, toy)
    assert tolerance.isnan().all() and (level == 300).all() and level.shape == (22, 2)
    tolerance, level, axis = find_levels(record(noise="none"), ROWS, toy)
    assert tolerance.isnan().all() and (level == -1).all() and level.shape == (22, 2)
    tolerance, level, axis = find_levels(record(noise="random"), ROWS, toy)
    assert tolerance.isnan().all() and set(level.flatten().tolist()) == {0, 100, 200, 300, 400}
    assert torch.equal(level, find_levels(record(noise="random"), ROWS, toy)[1])
    assert not torch.equal(level, find_levels(record(noise="random", seed=4), ROWS, toy)[1])


@pytest.mark.parametrize("noise", ["", "constant", "constant:", "constant:401", "constant:-1", "adaptive:3"])
def test_invalid_noise_is_refused(noise):
    assert "expected adaptive, random or constant:L" in refusal(check_noise, noise)
    assert noise_level.LEVELS[-1] == LARGEST_LEVEL


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3"])
def test_invalid_shards_are_refused(text):
    assert "expected i/n" in refusal(parse_shard, text)
    assert parse_shard("2/2") == (2, 2)


def test_processes_share_the_blocks_of_one_folder(processes, tmp_path, whole):
    workers = [processes.Process(target=job, args=(tmp_path,), kwargs={"kill": kill}) for kill in (None, 3, None)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)  # on a busy machine the server alone needs a minute to import torch
    # The one to be killed may find no third block to do.
    assert [worker.exitcode for worker in workers] in ([0, -signal.SIGKILL, 0], [0, 0, 0])
    assert bits(ViewCacheFolder(tmp_path)) == bits(whole)
