"""The example plug-in, installed: its parts do all that built-in ones do, and runs of them say when it is missing."""

import json

import numpy as np
import pytest
from plugin_tools import PLUGIN, do, install, run

from viewsmith.core.errors import InputError
from viewsmith.estimator.plan import check_packages
from viewsmith.methods.loading import estimators

PACKAGE = "viewsmith_example"


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A folder with the plug-in."""
    return install(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The folder of what is made with the plug-in and looked at without it."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def work(processes, tmp_path_factory):
    """What a function of plugin_work.py returns in a process of its own, which need not load torch anew."""

    def call(name, *arguments, folders=()):
        out = tmp_path_factory.mktemp("work") / "out.json"
        process = processes.Process(target=do, args=(name, arguments, folders, out))
        process.start()
        process.join(300)
        assert process.exitcode == 0
        return json.loads(out.read_text())

    return call


@pytest.fixture(scope="session")
def commands(work, installed, runs):
    """What commands printed and left behind."""
    return work("commands", runs, folders=(installed,))


@pytest.fixture(scope="session")
def in_python(work, installed, runs):
    """What the same parts did in Python."""
    return work("in_python", runs, folders=(installed,))


@pytest.mark.slow
def test_its_own_tests_pass(installed):
    result = run("-m", "pytest", "-q", "-p", "no:cacheprovider", PLUGIN / "tests", folders=(installed,))
    assert result.returncode == 0, result.stdout


def test_its_parts_are_listed_with_their_package(commands):
    text, found = commands["commands"]["methods"], json.loads(commands["commands"]["json"]["out"])
    lines = text["out"].splitlines()
    (framework,) = [line for line in lines if line.startswith("    align-uniform:")]
    assert "Wang and Isola 2020" in framework
    assert framework.endswith(f"options: projector_dims, uniformity  [{PACKAGE}]")
    (views,) = [line for line in lines if line.startswith("    drift:")]  # under vectors alone
    assert views.endswith(f"options: drift_strength, drift_knots  [{PACKAGE}]")
    assert f"denoising  (vectors)  [{PACKAGE}]" in lines
    assert found["frameworks"]["align-uniform"]["package"] == found["methods"]["denoising"]["package"] == PACKAGE
    assert found["view makers"]["vectors"]["drift"]["options"] == {"drift_strength": 0.5, "drift_knots": 4}
    assert text["err"] == ""
    help_ = " ".join(commands["commands"]["help"]["out"].split())
    assert "align-uniform" in help_ and "drift" in help_ and "denoising" in help_


def test_every_command_takes_them(commands):
    for command in ("fit", "resume", "embed", "evaluate", "report", "views"):
        assert commands["commands"][command]["code"] == 0, commands["commands"][command]["err"]
    for command in ("", " embed", " evaluate", " report", " views"):
        found = commands["commands"]["denoising" + command]
        assert found["code"] == 0, found["err"]


def test_options_reach_them(commands, runs):
    config = commands["config"]
    assert config["parameters"]["framework_options"] == {"uniformity": 2.0}
    assert config["fitted"]["framework_options"] == {"uniformity": 2.0, "projector_dims": [4]}
    assert config["parameters"]["view_options"] == {"drift_strength": 0.3, "drift_knots": 3}
    assert config["fitted"]["packages"] == {"framework align-uniform": PACKAGE, "view maker drift": PACKAGE}
    assert "package" not in config and commands["own config"]["package"] == PACKAGE
    assert commands["own config"]["parameters"]["levels"] == [0.1, 0.5]
    h, views = np.load(runs / "h.npz"), np.load(runs / "views.npz")
    assert h["H"].shape == (178, 8) and np.isfinite(h["H"]).all() and np.isfinite(views["views"]).all()
    assert "align-uniform" in (runs / "run" / "report.html").read_text()
    own, own_views = np.load(runs / "own.npz"), np.load(runs / "own_views.npz")
    assert own["H"].shape == (178, 8) and own_views["views"].shape == (142, 2, 13)
    assert np.isfinite(own["H"]).all() and np.isfinite(own_views["views"]).all()


def test_a_method_shows_its_updates(commands):
    last = commands["rows"][-1]
    assert {"loss/encoder", "loss/noise", "contrast", "error"} <= last.keys()
    assert last["loss/noise"] < commands["rows"][0]["loss/noise"]


def test_a_view_maker_of_a_method_of_a_plugin_learns(in_python):
    log_scale = np.log(in_python["learned"])  # all 0 at the start
    assert abs(log_scale).min() > 0 and abs(log_scale.mean()) < 1e-5


REFUSED = {
    "close": ("no option 'uniformty'", "did you mean uniformity"),
    "value": ("the framework 'align-uniform'", "uniformity is '-1'", "greater than or equal to 0"),
    "knots": ("the view maker 'drift'", "drift_knots is 'one'", "integer"),
    "too few": ("Denoising: levels is ['0.1'], expected at least 2 values",),
    "too many": ("Denoising: levels is ['0.1', '0.2', '0.3'], expected at most 2 values",),
    "other framework": ("Contrastive has no option 'uniformity', but the framework 'align-uniform' has",),
    "unknown part": ("unknown framework 'align-unifrom'", "did you mean 'align-uniform'"),
    "no preset": ("unknown preset 'paper': denoising has none, leave --preset out",),
}


def test_what_nothing_takes_is_refused_in_a_line(commands):
    for command, parts in REFUSED.items():
        result = commands["commands"][command]
        said = [line for line in result["err"].splitlines() if not line.startswith("warning: ")]
        assert result["code"] == 2 and len(said) == 1 and not commands["left"], command
        assert all(part in said[0] for part in parts), said


def test_python_takes_names_and_objects(in_python):
    assert in_python["objects are names"]
    assert in_python["same"] == {"named": True, "objects": True, "noise": True, "own": True}
    assert in_python["knots"] == 3
    used = {"framework align-uniform": PACKAGE, "view maker drift": PACKAGE}
    assert in_python["packages"] == {"named": used, "objects": {}, "noise": used, "own": {}}


def test_python_refuses_in_a_line(in_python):
    assert "[framework_options] or [view_options]" in in_python["two parts"]
    assert "the framework 'align-uniform' and the view maker 'two words'" in in_python["two parts"]
    assert "viewsmith.load(run, framework=...)" in in_python["without the objects"]
    assert "the framework 'simclr' has no option 'uniformity'" in in_python["no such option"]
    for option, part, where in (("depth", "encoder 'deep'", "encoder"), ("factor", "framework 'strict'", "framework")):
        expected = f"the {part} needs the option '{option}', which has no default: give it in {where}_options"
        assert expected in in_python[f"no {option}"]
    assert "the method 'denoising' is for vectors, but the data are images" in in_python["images"]
    assert "the width of the encoder 'wider' is 9, expected 8, its n_components" in in_python["wider"]
    assert "by_place is no option of the encoder 'wider', because it can be given by place" in in_python["by place"]


@pytest.fixture(scope="session")
def points(work, installed, tmp_path_factory):
    """A folder, and what commands and methods did with point clouds there."""
    folder = tmp_path_factory.mktemp("points")
    return folder, work("points", folder, folders=(installed,))


def test_a_kind_of_data_of_a_plugin_is_served_by_everything(points):
    found = points[1]
    for command in ("fit", "embed", "evaluate", "report", "views", "compare", "symmetries", "flat"):
        assert found["commands"][command]["code"] == 0, found["commands"][command]["err"]
    assert found["config"]["parameters"]["view_options"] == {"cloud_turn": 90.0}
    assert found["config"]["fitted"]["packages"]["modality points"] == PACKAGE
    assert "turn                  on the data" in found["commands"]["symmetries"]["out"]
    for method in ("contrastive", "pinda"):
        assert found["methods"][method] == [True, [4, 2, 48, 3]], method
    assert found["methods"]["metaug"][0] is True  # its views are features
    assert "no generator of views for points" in found["methods"]["diffaug"]
    assert "points" in found["methods"]["crl-tac"] and "points" in found["methods"]["denoising"]
    # The gallery has images of each sample and its views, which `drawn` makes.
    gallery = found["report"][found["report"].index("<h3>Views</h3>") :]
    assert "data:image/png" in gallery


def test_a_reader_of_a_plugin_reads_its_files(points, commands):
    folder, found = points[0], points[1]["commands"]
    for command in ("fit files", "embed files", "evaluate files"):
        assert found[command]["code"] == 0, found[command]["err"]
    with np.load(folder / "files.npz") as made:
        assert (
            made["H"].shape == (24, 8) and made["names"][0] == "kind 0/00.xyz" and made["names"][-1] == "kind 2/23.xyz"
        )
        assert made["y"].tolist() == ["kind 0"] * 8 + ["kind 1"] * 8 + ["kind 2"] * 8
    refused = found["option of files"]
    assert refused["code"] == 2
    assert "is a folder of .xyz files, on which image_size=8 has no effect" in refused["err"]
    listed = json.loads(commands["commands"]["json"]["out"])["readers"]["xyz"]
    assert listed["in_folders"] == [".xyz"] and listed["modality"] == "points" and listed["package"] == PACKAGE
    assert "    xyz *.xyz: " in commands["commands"]["methods"]["out"]


def test_a_method_of_a_plugin_has_its_own_figure(commands, runs):
    assert "Learned noise" in (runs / "denoising" / "report.html").read_text()


def test_baselines_of_a_plugin_are_compared(work, tmp_path):
    found = work("baseline", tmp_path)
    assert found["asked"]["code"] == found["all"]["code"] == 0, found
    assert list(found["rows"]) == ["raw", "asked", "contrastive"]
    assert "always" in found["all"]["out"] and "always" not in found["asked"]["out"]


def test_a_run_without_its_plugin_is_an_error_that_names_it(work, commands, in_python, runs):
    found = work("without", runs)
    for name, part in (("run", "view maker 'drift'"), ("denoising", "method 'denoising'")):
        expected = f"the {part}, which is part of the package '{PACKAGE}', which is not installed: install it"
        assert expected in found[name]["load"] and str(runs / name) in found[name]["load"]
        for command in ("embed", "report"):
            result = found[name][command]
            assert result["code"] == 2 and result["out"] == "" and "Traceback" not in result["err"]
            (said,) = result["err"].splitlines()
            assert said.startswith("error: ") and expected in said
    assert "the view maker 'two words', which was registered by a script" in found["spaced"]
    assert not (runs / "none.npz").exists()


@pytest.mark.slow
def test_a_plug_in_that_cannot_be_imported_is_skipped(work, tmp_path):
    broken = install(tmp_path)
    (broken / PACKAGE / "drift.py").write_text("import no_such_package\n")
    found = work("broken", folders=(broken,))
    said = found["methods"]["err"].splitlines()
    assert (
        found["methods"]["code"] == 0
        and "neighbors:" in found["methods"]["out"]
        and "drift:" not in found["methods"]["out"]
    )
    assert len(said) == 1 and "the plug-in 'example' (viewsmith_example) is skipped: ModuleNotFoundError" in said[0]
    assert found["unknown"]["code"] == 2 and "unknown framework 'nothing': expected one of" in found["unknown"]["err"]


def test_names_may_hold_spaces():
    estimators()  # the parts of all methods are registered
    with pytest.raises(InputError, match="the view maker 'my own views', which is part of the package 'elsewhere'"):
        check_packages({"view maker my own views": "elsewhere"}, "runs/one")
    check_packages({"noise generator mlp": "viewsmith", "view maker noise": "viewsmith"}, "runs/one")


@pytest.mark.slow
def test_float_images_of_five_channels(work, tmp_path):
    found = work("five_channels", tmp_path)
    for command in ("fit", "embed", "evaluate", "views", "report", "symmetries", "pinda", "methods"):
        assert found["commands"][command]["code"] == 0, found["commands"][command]["err"]
    assert found["shapes"] == [[90, 16], [72, 4, 16, 16, 5], "float32"] and found["report"]
    said = "spectral: reflectance in five bands; float32 (n, height, width, channel 5), 0 to 1"
    assert said in found["commands"]["methods"]["out"]
    assert found["commands"]["shape"]["code"] == 2 and "channel 5" in found["commands"]["shape"]["err"]
    noise, generator, transforms = found["lacks"]
    assert "there is no noise generator for spectral" in noise and "no generator of views for spectral" in generator
    assert "no transformations are registered for spectral" in transforms
