"""Options of estimators are grouped in parts, which can be given as objects, as tables, or option by option."""

import inspect
import tomllib

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

import viewsmith.parts
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, GenView, LinearContrast, PiNDA
from viewsmith.core.errors import InputError
from viewsmith.estimator.options import Part, expanded, leaves, places, slots
from viewsmith.methods.loading import estimators
from viewsmith.parts import Encoder, Input, Noise, Objective, Quality, Training, Transforms, Views

TINY = {"encoder": Encoder(hidden=(6,), n_components=5), "training": Training(epochs=1, batch_size=64)}
every_estimator = pytest.mark.parametrize("cls", estimators().values(), ids=estimators())


@every_estimator
def test_help_shows_at_most_eighteen_arguments(cls):
    shown = inspect.signature(cls).parameters
    assert len(shown) <= 18
    assert set(shown) == set(places(cls).values())
    for name in shown.keys() - slots(cls).keys():
        assert shown[name].default is getattr(cls, name)


@every_estimator
def test_an_option_is_of_one_part(cls):
    options = [name for part in slots(cls).values() for name in leaves(part)]
    assert len(options) == len(set(options)) and set(options) <= places(cls).keys()


@every_estimator
def test_every_part_can_be_imported_and_says_what_it_is(cls):
    for part in slots(cls).values():
        assert getattr(viewsmith.parts, part.__name__) is part
        assert part.__doc__.splitlines()[0].endswith(".") and "Parameters" in part.__doc__
        assert not part.lead or part.lead in leaves(part)
        assert list(inspect.signature(part).parameters) == list(leaves(part))


@pytest.mark.parametrize(
    "given",
    [
        {"noise": Noise(strength=0.5)},
        {"noise": {"strength": 0.5}},
        {"noise__strength": 0.5},
        {"noise.strength": 0.5},
        {"strength": 0.5},
    ],
)
def test_forms_of_one_option(given):
    assert expanded(PiNDA, given) == {"strength": 0.5}
    model = PiNDA(**given)
    assert model.strength == 0.5 and repr(model) == "PiNDA(strength=0.5)"
    assert repr(PiNDA().set_params(**given)) == "PiNDA(strength=0.5)"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"views": "noise"}, {"view_maker": "noise"}),
        ({"views": Views("noise", noise_strength=2.0)}, {"view_maker": "noise", "noise_strength": 2.0}),
        ({"views": {"name": "noise"}}, {"view_maker": "noise"}),
        ({"framework": Objective("byol", momentum=0.9)}, {"framework": "byol", "momentum": 0.9}),
        ({"framework": "byol"}, {"framework": "byol"}),
        ({"encoder": Encoder("mlp", hidden=(4,))}, {"encoder": "mlp", "hidden": (4,)}),
        ({"input": Input(scaling="none")}, {"scaling": "none"}),
        ({"input": None, "training": None}, {}),
    ],
)
def test_a_name_stands_for_a_part_with_its_defaults(given, found):
    assert expanded(Contrastive, given) == found
    assert vars(Contrastive(**given)) == vars(Contrastive(**found))


def test_options_of_a_named_part():
    model = LinearContrast(views=Views("window", window_minimum=0.4))
    assert (model.view_maker, model.view_options) == ("window", {"window_minimum": 0.4})
    assert vars(LinearContrast(view_maker="window", window_minimum=0.4)) == vars(model)
    assert Contrastive(framework=Objective("vicreg", variance_weight=3.0)).framework_options == {"variance_weight": 3.0}


@pytest.mark.parametrize(
    "given", [{"views__window_minimum": 0.6}, {"views": Views("window", window_minimum=0.6)}, {"window_minimum": 0.6}]
)
def test_options_of_a_named_part_are_set_later(given):
    model = LinearContrast(views=Views("window", window_minimum=0.4)).set_params(**given)
    assert model.view_options == {"window_minimum": 0.6} and model.ridge == "auto"


def test_a_switch_and_its_options_are_one_argument():
    assert GenView(quality=False).quality is False
    assert GenView(quality=Quality(gamma=0.5)).gamma == 0.5
    assert CRLTAC(family=Transforms("crops", crop_size=8)).crop_size == 8


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"magic": 1}, TypeError, "PiNDA has no option 'magic'"),
        ({"hidde": 1}, TypeError, "PiNDA has no option 'hidde'"),
        ({"noise": {"strenght": 1}}, InputError, "noise has no option 'strenght': did you mean strength"),
        ({"strength": 1.0, "noise": Noise(strength=2.0)}, InputError, "strength is given as 1.0 and as 2.0: leave one"),
    ],
)
def test_what_is_no_part_is_refused_in_one_line(given, error, message):
    with pytest.raises(error, match=message) as caught:
        PiNDA(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given", [{"noise": 0.5}, {"noise": Views("noise")}, {"framework": Noise()}, {"views": Noise()}]
)
def test_what_is_no_part_is_refused_in_fit(wine, given):
    ((slot, value),) = given.items()
    expected = slots(PiNDA)[slot].__name__
    for model in (PiNDA(**given), PiNDA().set_params(**given)):
        assert refusal(model.fit, wine) == f"{slot} is {value!r}, expected {expected}(...)"


def test_parts_refuse_options_of_others():
    with pytest.raises(TypeError, match="Training has no option 'epoch': did you mean epochs"):
        Training(epoch=3)
    with pytest.raises(TypeError, match="Training takes its options by name"):
        Training(3)
    with pytest.raises(TypeError, match="Views takes its options by name"):
        Views("noise", "blur")
    with pytest.raises(ValueError, match="PiNDA has no option 'magic'"):
        PiNDA().set_params(magic=1)


def test_parts_are_scikit_learn_like():
    part = Training(minutes=5).set_params(epochs=2)
    assert part.get_params() == {"minutes": 5, "epochs": 2}
    assert repr(part) == "Training(minutes=5, epochs=2)"
    assert repr(clone(part)) == repr(part) and isinstance(part, Part)
    model = PiNDA(noise=Noise(strength=0.5))
    assert model.get_params()["noise__strength"] == 0.5
    assert "noise__strength" not in model.get_params(deep=False)
    assert vars(clone(model)) == vars(model)


def test_a_search_reaches_into_parts(wine):
    labels = (wine[:, 0] > np.median(wine[:, 0])).astype(int)
    steps = [("pinda", PiNDA(**TINY, views="noise", random_state=0)), ("knn", KNeighborsClassifier(3))]
    search = GridSearchCV(Pipeline(steps), {"pinda__noise__strength": [0.1, 0.5]}, cv=2).fit(wine, labels)
    assert search.best_params_["pinda__noise__strength"] in (0.1, 0.5)
    assert search.best_estimator_[0].options_.strength == search.best_params_["pinda__noise__strength"]


def test_a_configuration_has_a_table_for_each_part(wine, tmp_path):
    model = PiNDA(**TINY, noise=Noise(strength=0.5), random_state=0).fit(wine, run=tmp_path / "run")
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["parts"] == list(slots(PiNDA))
    assert config["noise"]["strength"] == 0.5 and config["training"]["epochs"] == 1
    of_parts = {name for part in slots(PiNDA).values() for name in leaves(part)}
    assert config["parameters"].keys() == places(PiNDA).keys() - of_parts - {"verbose"}
    loaded = viewsmith.load(tmp_path / "run")
    assert (loaded.transform(wine) == model.transform(wine)).all()
