"""A folder of files of MATLAB that are a recording each, or several trials."""

from pathlib import Path

from viewsmith.core.errors import InputError, name_list, say
from viewsmith.data.matlab import Arrays, arrays_of, channels_of
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.array_recordings import has_time, rate_of, recording_of
from viewsmith.data.readers.arrays import OTHERS
from viewsmith.data.reading import FileContents, reader
from viewsmith.data.recording_files import files_of, name_in
from viewsmith.data.recordings import OPTIONS, Recording, samples_of
from viewsmith.data.unread import refuse_folder


@reader(
    "mats",
    in_folders=(".mat",),
    help="a folder of .mat files that are a recording each; with labels by folders or in a table of names",
    noun="a folder of .mat files",
    modality="series",
    options=OPTIONS,
    example="bearings/ --modality series --rate 12000 --length 200ms",
)
def read_mats(path: Path, request: DataOptions) -> FileContents:
    """Recordings (n, channels, time): of each file X, or vectors of one length as channels, or the largest array."""
    if request.modality != "series" and not has_time(request):
        try:
            refuse_folder(path, (".mat",))
        except InputError as error:
            raise InputError(f"{error}; if each is a recording: --modality series --rate 250") from error
    files, n_train = files_of(path, (".mat",))
    recordings: list[Recording] = []
    trained = 0
    for number, (file, label) in enumerate(files):
        recordings += _recordings(file, name_in(path, file), label, request)
        trained = len(recordings) if n_train is not None and number < n_train else trained
    channels = f", whose channels are {name_list(list(recordings[0].channels))}" if recordings[0].channels else ""
    say(f"{path}: {len(recordings):,} recordings of {len(files):,} files{channels}")
    return samples_of(recordings, request, str(path), n_train=None if n_train is None else trained, folder=path)


def _recordings(file: Path, name: str, label: str | None, request: DataOptions) -> list[Recording]:
    _, numbers, cells = arrays_of(file, ["y", *OTHERS["y"]])
    rate = rate_of(file, numbers, request)
    named = next((each for each in numbers | cells if each.lower() in ("x", *OTHERS["X"])), None)
    if named is None and (found := channels_of(numbers)) is not None:
        return [Recording(found[0].astype("float32"), name, rate, found[1], label)]
    large: Arrays = {each: x for each, x in (numbers | cells).items() if x.size > 1}
    if not large:
        raise InputError(f"{file} has {name_list([*numbers]) or 'no numbers'}, expected a recording (channels, time)")
    x = large.get(named or "", max(large.values(), key=lambda one: sum(each.size for each in one)))
    if x.dtype.kind == "O" or x.ndim == 3:
        return [recording_of(each, f"{name}:{i}", label, rate) for i, each in enumerate(x)]
    if x.ndim > 3:
        raise InputError(f"{file} has an array of shape {x.shape}, expected a recording (channels, time), or several")
    return [recording_of(x if x.shape[0] <= x.shape[-1] else x.T, name, label, rate)]
