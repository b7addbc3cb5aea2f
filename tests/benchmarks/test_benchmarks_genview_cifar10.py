"""The script for the published weights runs from end to end, with tiny random ones."""

import json

import pytest

from benchmarks.quality.generated import genview_cifar10
from viewsmith.data.view_cache import ViewCacheFolder


@pytest.mark.slow
def test_smoke(tmp_path, capsys):
    pytest.importorskip("diffusers")
    genview_cifar10.main(["--smoke", "--out", str(tmp_path), "--device", "cpu"])
    assert ViewCacheFolder(tmp_path / "views").read("views").shape == (24, 1, 32, 32, 3)
    assert ViewCacheFolder(tmp_path / "views").read_record()["generator"]["name"] == "unclip"
    config = (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    assert f'features = "clip:{tmp_path / "clip"}"' in config
    assert 'framework = "moco"' in config and 'encoder = "resnet18"' in config
    assert "linear" in capsys.readouterr().out
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text(encoding="utf-8"))
    assert set(found["protocols"]) == {"linear", "knn"}
    with pytest.raises(SystemExit):
        genview_cifar10.main(["--out", str(tmp_path)])
