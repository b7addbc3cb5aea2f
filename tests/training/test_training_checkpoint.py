"""Checkpoint files: damaged files are detected and named, nothing is pickled."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from training_toys import BATCH, SEED, make_contrastive, make_players, rows

from refusals import refusal
from stopping import Stop
from viewsmith.core.tensors import load_tensors, load_weights, save_tensors
from viewsmith.training import CheckpointFolder, History, Trainer
from viewsmith.training.run import pack_optimizer, unpack_optimizer


def trainer_for(folder, method=None, **options):
    folder = CheckpointFolder(folder)
    method = method or make_players()
    return Trainer(method, seed=SEED, batch_size=BATCH, checkpoint=folder, callbacks=[History()], **options)


@pytest.fixture
def saved(tmp_path):
    """The checkpoint of a training stopped after 6 steps."""
    trainer = trainer_for(tmp_path)
    trainer.callbacks.append(Stop(6))
    assert trainer.fit(rows()) == "interrupted"
    return tmp_path


def tensor_file(folder):
    (found,) = folder.glob("*.safetensors")
    return found


def test_a_checkpoint_has_only_tensors_and_json(saved):
    assert sorted(path.suffix for path in saved.iterdir()) == [".json", ".safetensors"]
    tensors = tensor_file(saved).read_bytes()
    header = json.loads(tensors[8 : 8 + int.from_bytes(tensors[:8], "little")])
    assert {"method/encoder.0.weight", "optimizer/encoder/0/momentum_buffer", "random/cpu"} <= header.keys()
    pointer = json.loads((saved / "latest.json").read_text())
    assert pointer["file"] == tensor_file(saved).name and pointer["record"]["steps"] == 6
    assert all((path.stat().st_mode & 0o444) == 0o444 for path in saved.iterdir())


def damage(source_name, folder):
    file, pointer = tensor_file(folder), folder / "latest.json"
    content = bytearray(file.read_bytes())
    if source_name == "truncated":
        file.write_bytes(content[:-10])
    elif source_name == "flipped byte":
        content[-5] ^= 1
        file.write_bytes(content)
    elif source_name == "flipped byte in the header":
        content[20] ^= 1
        file.write_bytes(content)
    elif source_name == "empty":
        file.write_bytes(b"")
    elif source_name == "missing":
        file.unlink()
    elif source_name == "cut JSON":
        pointer.write_text(pointer.read_text()[:-20])
        return pointer
    elif source_name == "no JSON":
        pointer.write_bytes(b"\xff\x00\x80")
        return pointer
    elif source_name == "other JSON":
        pointer.write_text("[1, 2]")
        return pointer
    else:
        pointer.write_text('{"file": 3, "record": {}}')
        return pointer
    return file


@pytest.mark.parametrize(
    "source_name",
    ["truncated", "flipped byte", "flipped byte in the header", "empty", "missing", "cut JSON", "no JSON", "other JSON",
     "wrong JSON"],
)  # fmt: skip
def test_a_damaged_checkpoint_is_named_and_not_resumed(saved, source_name):
    file = damage(source_name, saved)
    message = refusal(trainer_for(saved).fit, rows(), resume=True)
    assert str(file) in message and "is damaged" in message and f"delete the folder {saved}" in message


def test_a_checkpoint_of_other_rows_or_another_method_is_refused(saved):
    message = refusal(trainer_for(saved).fit, rows(40), resume=True)
    assert "a training on 32 rows, but 40 rows are given" in message
    message = refusal(trainer_for(saved, make_contrastive()).fit, rows(), resume=True)
    assert "the checkpoint does not fit its configuration" in message and "'channel.bias'" in message


def test_without_resume_an_old_checkpoint_is_replaced(saved):
    trainer = trainer_for(saved)
    assert trainer.fit(rows()) == "finished" and trainer.steps == 20
    assert json.loads((saved / "latest.json").read_text())["record"]["steps"] == 20
    assert len(list(saved.iterdir())) == 2


def test_no_checkpoint_is_none(tmp_path):
    assert CheckpointFolder(tmp_path / "none").load() is None


# --- tensors and weights


def test_equal_tensors_are_equal_files(tmp_path):
    x = torch.arange(12.0).view(3, 4)
    save_tensors(tmp_path / "a", {"x": x, "y": x[0], "flag": torch.tensor(True)})
    save_tensors(tmp_path / "b", {"flag": torch.tensor(True), "y": x[0].clone(), "x": x.T.contiguous().T})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = load_tensors(tmp_path / "a")
    assert torch.equal(loaded["x"], x) and torch.equal(loaded["y"], x[0]) and bool(loaded["flag"])


def test_a_file_whose_content_has_changed_is_damaged(tmp_path):
    path = tmp_path / "weights.safetensors"
    tensors = {
        "x": torch.arange(6.0).view(2, 3),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "flag": torch.tensor(True),
        "none": torch.empty(0, 3),
        "count": torch.tensor(3),
    }
    save_tensors(path, tensors)
    loaded, content = load_tensors(path), path.read_bytes()
    assert all(
        torch.equal(loaded[name], value) and loaded[name].dtype == value.dtype for name, value in tensors.items()
    )
    data = 8 + int.from_bytes(content[:8], "little")
    assert len(content) - data == 24 + 6 + 1 + 8
    for place in range(data, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        message = refusal(load_tensors, path)
        assert f"{path} is damaged (its content does not match its checksum)" in message
    for old, new in ((b"[2,3]", b"[3,2]"), (b'"half"', b'"calf"'), (b'"BF16"', b'"F16" ')):
        assert content.count(old) == 1
        path.write_bytes(content.replace(old, new))
        assert "checksum" in refusal(load_tensors, path)


def test_files_without_a_checksum_are_read(tmp_path):
    save_file({"x": torch.ones(2)}, tmp_path / "old.safetensors", metadata={"format": "pt"})
    assert load_tensors(tmp_path / "old.safetensors")["x"].tolist() == [1, 1]


def test_tied_weights_can_be_saved(tmp_path):
    method = make_contrastive()
    method.twin = nn.Linear(5, 3)
    method.twin.weight = method.framework.head[0].weight
    trainer = trainer_for(tmp_path, method)
    assert trainer.fit(rows()) == "finished"
    tensors = CheckpointFolder(tmp_path).load()[0]
    saved_pair = [tensors[f"method/{name}.weight"] for name in ("framework.head.0", "twin")]
    assert torch.equal(saved_pair[0], saved_pair[1]) and torch.equal(saved_pair[0], method.framework.head[0].weight)


def test_weights_that_do_not_fit_are_refused(tmp_path):
    network = nn.Linear(3, 2)
    right = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    load_weights(network, right, "the file")
    assert (network.weight == 1).all()
    message = refusal(load_weights, network, right | {"weight": torch.ones(2, 4)}, "the file")
    assert "the file" in message and "weight has shape (2, 4), expected (2, 3)" in message
    message = refusal(load_weights, network, {"weight": torch.ones(2, 3), "more": torch.ones(1)}, "the file")
    assert "2 names differ (missing 'bias', unknown 'more')" in message
    assert "expected the file that a finished training writes" in refusal(load_tensors, tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, fused=True),
        lambda p: torch.optim.Adam(p, fused=True),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True),
        lambda p: torch.optim.SGD(p, 0.1, fused=True),
    ],
    ids=["adamw", "adam", "momentum", "sgd"],
)
def test_an_optimizer_is_restored_from_its_tensors(make):
    def network():
        torch.manual_seed(0)
        return nn.Linear(3, 2)

    def step(network, optimizer):
        optimizer.zero_grad()
        network(torch.arange(3.0)).square().sum().backward()
        optimizer.step()

    one = network()
    first = make(one.parameters())
    for _ in range(3):
        step(one, first)
    packed = {key: value.clone() for key, value in pack_optimizer("a", first).items()}

    other = network()
    other.load_state_dict(one.state_dict())
    second = make(other.parameters())
    unpack_optimizer("a", second, packed | {"b/0/step": torch.tensor(9.0)})
    for _ in range(2):
        step(one, first)
        step(other, second)
    assert torch.equal(one.weight, other.weight) and torch.equal(one.bias, other.bias)
