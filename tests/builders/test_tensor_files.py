"""Tensors of a file are copies, equal to those of the package ``safetensors``, with the digest of what was read."""

import hashlib
import json
import os
import resource

import pytest
import torch
from safetensors.torch import load_file, save_file

from graphattn.builders._tensor_files import TensorFile

DTYPES = ["bool", "uint8", "int8", "int16", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
DTYPES += ["complex64", "float8_e4m3fn", "float8_e5m2"]


def same(tensor, other):
    bits = (value.reshape(-1).view(torch.uint8) for value in (tensor, other))
    return (tensor.dtype, tensor.shape) == (other.dtype, other.shape) and torch.equal(*bits)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2])}, path, metadata={"format": "pt"})
    return path


def read(path):
    with TensorFile(path) as file:
        return file.read_all()[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_types_and_shapes(tmp_path, dtype):
    path = tmp_path / "a"
    shapes = [(), (3,), (2, 3), (0,), (2, 0, 3)]
    save_file({str(shape): (torch.rand(shape) * 9).to(getattr(torch, dtype)) for shape in shapes}, path)
    expected = load_file(path)
    with torch.device("meta"), TensorFile(path) as file:
        tensors, digest = file.read_all()
        assert all(same(file.read(name), expected[name]) for name in file)
    assert tensors.keys() == expected.keys()
    assert all(same(tensors[name], expected[name]) for name in expected)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_no_tensors(tmp_path):
    save_file({}, tmp_path / "a")
    assert read(tmp_path / "a") == {}


def test_tensors_are_no_windows_on_the_file(path):
    tensors = read(path)
    size = path.stat().st_size
    path.write_bytes(b"\xff" * size)
    assert tensors["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    os.truncate(path, 0)
    assert tensors["b"].tolist() == [1, 2]
    tensors["b"] += 1


@pytest.mark.parametrize("change", ["cut", "written"])
def test_a_file_that_changes_while_it_is_read(path, change):
    save_file({"a": torch.zeros(1 << 16), "b": torch.zeros(1 << 16)}, path)
    with TensorFile(path) as file:
        if change == "cut":
            os.truncate(path, path.stat().st_size - 1)
        else:
            path.write_bytes(path.read_bytes() + b"x")
        with pytest.raises(ValueError, match=r"ends too early|was changed"):
            file.read_all()
        with pytest.raises(ValueError, match=r"ends too early|was changed"):
            file.read("b")


def header(values, data=b""):
    text = json.dumps(values).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(**changes):
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x01",
        (1 << 60).to_bytes(8, "little") + b"{}",
        (5).to_bytes(8, "little") + b"{not}",
        (2).to_bytes(8, "little") + b"[]",
        header({"a": entry()}, bytes(7)),
        header({"a": entry()}, bytes(9)),
        header({"a": entry(shape=[3])}, bytes(8)),
        header({"a": entry(shape=[-2])}, bytes(8)),
        header({"a": entry(shape=[2.0])}, bytes(8)),
        header({"a": entry(shape=[True])}, bytes(4)),
        header({"a": entry(data_offsets=[8, 0])}, bytes(8)),
        header({"a": entry(data_offsets=[0])}, bytes(8)),
        header({"a": entry(data_offsets=[8, 16])}, bytes(16)),
        header({"a": entry(), "b": entry()}, bytes(8)),
        header({"a": 5}, bytes(8)),
        header({"a": {}}, bytes(8)),
        header({"a": entry(dtype="F999")}, bytes(8)),
    ],
)
def test_files_that_are_damaged(tmp_path, content):
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"header|tensor|bytes|shape"):
        read(path)


def test_a_tensor_of_an_unknown_type_beside_others(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(header({"a": entry(dtype="F4"), "b": entry(data_offsets=[8, 16])}, bytes(16)))
    with TensorFile(path) as file:
        assert file.read("b").tolist() == [0, 0]
        with pytest.raises(ValueError, match="type"):
            file.read("a")


def test_no_second_copy_is_in_memory(tmp_path):
    path, count = tmp_path / "a", 1 << 24
    save_file({str(number): torch.zeros(count // 4) for number in range(4)}, path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tensors = read(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert sum(tensor.nbytes for tensor in tensors.values()) == 4 * count
    assert peak < 6 * count // 1024
