"""Wheelhouses: what slimming takes away, and that parts come out as they went in or say why not."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import struct
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.wheelhouse import fatbin, resolve
from harness.wheelhouse.build import build, pack_calls
from harness.wheelhouse.hostlibs import RECORD, link_host_libraries
from harness.wheelhouse.manifest import MANIFEST, MARKER, WheelhouseError, read, sha256_of, write
from harness.wheelhouse.slimwheel import Wishes, slim
from harness.wheelhouse.unpack import FaultyPartsError, find_target, unpack

ROOT = Path(__file__).resolve().parents[1]
PTX, CUBIN = fatbin.KIND_PTX, fatbin.KIND_CUBIN
Code = tuple[int, int, bytes]


def entry(kind: int, arch: int, payload: bytes, header: int = 64) -> bytes:
    """One entry of a container; the header's own fields beyond the known ones are noise."""
    head = bytearray((7 * i + 3) % 251 for i in range(header))
    struct.pack_into("<HHIQ", head, 0, kind, 0x101, header, len(payload))
    struct.pack_into("<I", head, 28, arch)
    return bytes(head) + payload


def container(*codes: Code) -> bytes:
    body = b"".join(entry(kind, arch, payload) for kind, arch, payload in codes)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf(sections: list[tuple[str, bytes]]) -> bytes:
    """A minimal ELF64 file: header, contents, section names, section headers."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _ in sections) + b".shstrtab\0"
    body = bytearray(64)
    rows = [bytes(64)]
    for name, content in [*sections, (".shstrtab", names)]:
        at = names.index(name.encode() + b"\0")
        kind = 3 if name == ".shstrtab" else 1
        rows.append(struct.pack("<IIQQQQIIQQ", at, kind, 2, 0, len(body), len(content), 0, 0, 8, 0))
        body += content
    head = struct.pack("<4sBBBB8xHHI", b"\x7fELF", 2, 1, 1, 0, 3, 62, 1)
    head += struct.pack("<QQQIHHHHHH", 0, 0, len(body), 0, 64, 0, 0, 64, len(rows), len(rows) - 1)
    body[:64] = head
    return bytes(body) + b"".join(rows)


def noise(seed: int, size: int) -> bytes:
    return b"".join(hashlib.sha256(bytes([seed, i % 256])).digest() for i in range(size // 32 + 1))[:size]


def library(*containers: bytes, padding: int = 8) -> bytes:
    fat = bytes(padding).join(containers)
    return elf([(".text", noise(1, 96)), (".nv_fatbin", fat), (".rodata", noise(2, 40))])


THREE = container(
    (CUBIN, 80, noise(3, 64)),
    (CUBIN, 90, noise(4, 96)),
    (PTX, 90, noise(5, 32)),
    (CUBIN, 90, bytes(range(8))),
)
FALLBACK = container((CUBIN, 86, noise(6, 40)), (PTX, 80, noise(7, 48)), (PTX, 120, noise(8, 24)))


def make_wheel(folder: Path, project: str, version: str, files: dict[str, bytes], **meta: str) -> Path:
    info = f"{project}-{version}.dist-info"
    tag = meta.get("tag", "py3-none-any")
    needs = "".join(f"Requires-Dist: {need}\n" for need in meta.get("needs", "").split())
    everything = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{needs}".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    record = ""
    for name, content in everything.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    everything[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    path = folder / f"{project}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in everything.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder of fake wheels: two torch releases that share a CUDA library."""
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("2.8.0", "2.9.0"):
        files = {
            "torch/__init__.py": f"__version__ = {version!r}\n".encode(),
            "torch/lib/libtorch_cuda.so": library(THREE, noise_container(int(version[2]))),
            "torch/lib/libtorch.a": b"static",
        }
        make_wheel(folder, "torch", version, files, needs="nvidia-nccl-cu12 sympy")
    lib = {"nvidia/nccl/lib/libnccl.so.2": library(THREE, FALLBACK), "nvidia/nccl/LICENSE": b"free"}
    make_wheel(folder, "nvidia_nccl_cu12", "2.27.3", lib)
    make_wheel(folder, "nvidia_nccl_cu12", "2.27.5", lib)
    for project in ("sympy", "numpy", "setuptools"):
        make_wheel(folder, project, "1.0", {f"{project}/__init__.py": noise(9, 500)})
    return folder


def noise_container(seed: int) -> bytes:
    return container((CUBIN, 90, noise(seed, 3000)), (CUBIN, 100, noise(seed + 50, 2000)))


def made(index: Path, out: Path, torch: str = "2.9.0", **options: object) -> Path:
    values: dict[str, object] = {"wheels_from": index, "drop": ("*.a",), **options}
    build(torch, "3.12", "sm_90", 1000, out, **values)  # type: ignore[arg-type]
    return out


def test_slimming_changes_nothing_but_code_of_other_architectures() -> None:
    before = library(THREE, FALLBACK)
    ranges, removed = fatbin.zero_ranges(before, 90)
    after = b"".join(fatbin.zeroed(before, ranges))
    assert removed == {"cubin sm_80": 64, "cubin sm_86": 40, "ptx sm_120": 24, "ptx sm_90": 32}
    gone = {i for offset, size in ranges for i in range(offset, offset + size)}
    assert len(after) == len(before)
    assert all(after[i] == (0 if i in gone else before[i]) for i in range(len(before)))
    for seed, size in ((3, 64), (5, 32), (6, 40), (8, 24)):
        assert noise(seed, size) in before
        assert noise(seed, size) not in after
    for seed, size in ((1, 96), (2, 40), (4, 96), (7, 48)):
        assert noise(seed, size) in after


def test_ptx_stays_where_there_is_no_machine_code_of_the_architecture() -> None:
    (section,) = fatbin.fatbin_sections(library(FALLBACK))
    (entries,) = fatbin.containers(library(FALLBACK), section)
    assert {(e.kind, e.arch) for e in fatbin.needed(entries, 90)} == {(PTX, 80)}
    assert {(e.kind, e.arch) for e in fatbin.needed(entries, 89)} == {(CUBIN, 86), (PTX, 80)}
    assert {(e.kind, e.arch) for e in fatbin.needed(entries, 86)} == {(CUBIN, 86)}


def test_containers_among_a_librarys_data_are_found_and_chance_is_not_taken_for_one() -> None:
    chance = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 80) + noise(10, 80)
    data = noise(11, 24) + chance + THREE + noise(12, 12) + FALLBACK + chance[:12]
    before = elf([(".text", noise(1, 96)), (".data", data)])
    ranges, removed = fatbin.zero_ranges(before, 90)
    after = b"".join(fatbin.zeroed(before, ranges))
    assert removed == {"cubin sm_80": 64, "cubin sm_86": 40, "ptx sm_120": 24, "ptx sm_90": 32}
    for kept in (noise(11, 24), chance, noise(12, 12), noise(4, 96), noise(7, 48), chance[:12]):
        assert kept in after


codes = st.lists(
    st.tuples(
        st.sampled_from([PTX, CUBIN, 4]),
        st.sampled_from([75, 80, 86, 90, 100, 120]),
        st.binary(max_size=80),
    ),
    max_size=5,
)


@settings(deadline=None, max_examples=60)
@given(st.lists(codes, max_size=4), st.sampled_from([80, 90, 120]), st.integers(0, 3))
def test_any_layout_keeps_what_its_gpu_uses(layout: list[list[Code]], arch: int, padding: int) -> None:
    before = library(*(container(*row) for row in layout), padding=8 * padding)
    ranges, _ = fatbin.zero_ranges(before, arch)
    after = b"".join(fatbin.zeroed(before, ranges))
    sections = fatbin.fatbin_sections(after)
    assert sections == fatbin.fatbin_sections(before)
    found = [e for s in sections for row in fatbin.containers(after, s) for e in row]
    assert [(e.kind, e.arch) for e in found] == [c[:2] for row in layout for c in row]
    for have, (kind, number, payload) in zip(found, (c for r in layout for c in r), strict=True):
        got = after[have.offset : have.offset + have.size]
        assert got in (payload, bytes(len(payload)))
        if number == arch and kind == CUBIN:
            assert got == payload


@pytest.mark.parametrize(
    "broken",
    [
        elf([(".nv_fatbin", b"what is this, then?!")]),
        elf([(".nv_fatbin", THREE[:-8])]),
        elf([(".nv_fatbin", struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 8) + bytes(8))]),
        library(THREE)[:-70],
    ],
)
def test_an_unknown_layout_is_refused_and_named(broken: bytes) -> None:
    with pytest.raises(WheelhouseError, match=r"libx\.so: .*(unknown layout|cut off)"):
        fatbin.zero_ranges(broken, 90, "libx.so")


@pytest.mark.parametrize("name", ["sm90", "90", "sm_9", "compute_90"])
def test_an_architecture_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(WheelhouseError, match="not a GPU architecture"):
        fatbin.parse_arch(name)


def test_a_slim_wheel_is_a_valid_wheel_that_says_what_it_was(index: Path, tmp_path: Path) -> None:
    source = index / "torch-2.9.0-py3-none-any.whl"
    target = tmp_path / source.name
    wishes = Wishes("sm_90", drop=("*.a", "*/METADATA"))
    slim(source, target, wishes, tmp_path)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target) as new:
        info = "torch-2.9.0.dist-info"
        for kept in ("torch/__init__.py", f"{info}/METADATA", f"{info}/WHEEL"):
            assert old.read(kept) == new.read(kept)
        marker = json.loads(new.read(f"{info}/{MARKER}"))
    assert marker["original"] == source.name
    assert marker["original_sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert marker["gpu_arch"] == "sm_90"
    assert marker["dropped"] == ["torch/lib/libtorch.a"]
    verify = script("verify_slim")
    faults, notes = verify.verify(source, target)
    assert faults == []
    assert any("libtorch_cuda.so" in note and "zeroed" in note for note in notes)
    again = tmp_path / "again.whl"
    slim(source, again, wishes, tmp_path)
    assert again.read_bytes() == target.read_bytes()


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("needle", "fault"),
    [(noise(1, 96), "differs before"), (noise(4, 96), "changed, not zeroed"), (noise(2, 40), "after")],
)
def test_verifying_finds_any_other_change(index: Path, tmp_path: Path, needle: bytes, fault: str) -> None:
    source = index / "torch-2.9.0-py3-none-any.whl"
    target = tmp_path / source.name
    slim(source, target, Wishes("sm_90"), tmp_path)
    with zipfile.ZipFile(target) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = "torch/lib/libtorch_cuda.so"
    assert needle in files[name]
    files[name] = files[name].replace(needle, bytes([needle[0] ^ 1]) + needle[1:])
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as archive:
        for path, content in files.items():
            fresh = zipfile.ZipInfo(path)
            if path in old.namelist():
                fresh.external_attr = old.getinfo(path).external_attr
            archive.writestr(fresh, content)
    faults, _ = script("verify_slim").verify(source, target)
    assert any(fault in line for line in faults)
    assert any("RECORD is wrong" in line for line in faults)


def test_parts_come_out_as_the_wheels_that_went_in(index: Path, tmp_path: Path) -> None:
    out, dest = made(index, tmp_path / "out"), tmp_path / "wheels"
    assert max(p.stat().st_size for p in out.glob("*.part")) <= 1000
    (target,) = unpack(out, dest)
    manifest = read(out / MANIFEST)
    assert len(manifest.wheels["torch-2.9.0-py3-none-any.whl"].parts) > 1
    for name in target.wheels:
        digest = hashlib.sha256((dest / name).read_bytes()).hexdigest()
        assert digest == manifest.wheels[name].sha256
        assert manifest.wheels[name].original_sha256 == sha256_of(index / name)
    forms = {w.project: w.form for w in manifest.wheels.values()}
    assert forms["torch"] == forms["nvidia-nccl-cu12"] == "slimmed"
    assert forms["sympy"] == forms["numpy"] == forms["setuptools"] == "original"
    found = find_target(dest, "2.9.0", "3.12")
    assert found is not None
    assert {path.name for path in found[1]} == set(target.wheels)
    assert find_target(dest, "2.9.0", "3.13") is None
    assert find_target(index, "2.9.0", "3.12") is None


def test_a_shared_wheel_is_shipped_once(index: Path, tmp_path: Path) -> None:
    out = made(index, tmp_path / "out", "2.8.0")
    before = set(out.glob("*.part"))
    made(index, out, "2.9.0")
    fresh = {p.name for p in set(out.glob("*.part")) - before}
    assert fresh
    assert all(name.startswith("torch-2.9.0") for name in fresh)
    assert {t.torch for t in unpack(out, tmp_path / "wheels")} == {"2.8.0", "2.9.0"}


def test_building_again_makes_nothing_again(index: Path, tmp_path: Path) -> None:
    out = made(index, tmp_path / "out")
    times = {p: p.stat().st_mtime_ns for p in out.glob("*.part")}
    made(index, out)
    assert {p: p.stat().st_mtime_ns for p in out.glob("*.part")} == times


def test_a_wheel_made_with_other_options_is_not_taken_for_the_same(index: Path, tmp_path: Path) -> None:
    out = made(index, tmp_path / "out")
    with pytest.raises(WheelhouseError, match="other options"):
        made(index, out, drop=())


def test_a_substitute_and_what_is_left_out_are_written_down(index: Path, tmp_path: Path) -> None:
    out = made(index, tmp_path / "out", substitute={"nvidia-nccl-cu12": "2.27.3"}, leave_out=["sym*"])
    target = read(out / MANIFEST).targets["torch-2.9.0-cp312"]
    assert target.substituted == {"nvidia-nccl-cu12": ("2.27.5", "2.27.3")}
    assert target.left_out == {"sympy": "1.0"}
    assert not any("sympy" in name for name in target.wheels)


def test_with_the_hosts_libraries_no_nvidia_wheel_ships_unless_it_is_asked_for(
    index: Path, tmp_path: Path
) -> None:
    for own, ships in (((), False), (("nvidia-nccl-cu12",), True)):
        out = made(index, tmp_path / f"out-{ships}", reuse_host=True, own=own)
        (target,) = read(out / MANIFEST).targets.values()
        assert target.reuse_host
        assert any("nccl" in name for name in target.wheels) is ships
        assert ("nvidia-nccl-cu12" in target.left_out) is not ships


def test_a_host_only_library_keeps_no_gpu_code(index: Path, tmp_path: Path) -> None:
    out = made(index, tmp_path / "out", host_only=("*/libnccl.so*",))
    unpack(out, tmp_path / "wheels")
    name = "nvidia_nccl_cu12-2.27.5-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / "wheels" / name) as wheel:
        content = wheel.read("nvidia/nccl/lib/libnccl.so.2")
    assert noise(4, 96) not in content
    assert noise(1, 96) in content
    assert read(out / MANIFEST).wheels[name].host_only == ("nvidia/nccl/lib/libnccl.so.2",)
    assert script("verify_slim").verify(index / name, tmp_path / "wheels" / name)[0] == []


def test_corrupt_missing_and_foreign_parts_are_named_each(index: Path, tmp_path: Path) -> None:
    out = made(index, tmp_path / "out")
    torch = sorted(out.glob("torch-*.part"))
    flipped = bytearray(torch[0].read_bytes())
    flipped[5] ^= 1
    torch[0].write_bytes(flipped)
    torch[1].write_bytes(torch[1].read_bytes()[:-1])
    (nccl,) = out.glob("nvidia*001.part")
    nccl.unlink()
    (out / "of-another-set-001.part").write_bytes(b"?")
    with pytest.raises(FaultyPartsError) as caught:
        unpack(out, tmp_path / "wheels")
    lines = {line.split()[0]: line for line in caught.value.faults}
    assert lines.keys() == {torch[0].name, torch[1].name, nccl.name, "of-another-set-001.part"}
    assert "SHA-256" in lines[torch[0].name]
    assert "bytes in place of" in lines[torch[1].name]
    assert "missing; nvidia_nccl" in lines[nccl.name]
    assert "foreign" in lines["of-another-set-001.part"]
    assert all(line in str(caught.value) and line.endswith(".") for line in lines.values())
    assert not list((tmp_path / "wheels").glob("*.whl"))


def test_one_release_unpacks_before_the_parts_of_the_others_come(index: Path, tmp_path: Path) -> None:
    out = made(index, made(index, tmp_path / "out", "2.8.0"), "2.9.0")
    for part in out.glob("torch-2.8.0*.part"):
        part.unlink()
    dest = tmp_path / "wheels"
    assert [t.torch for t in unpack(out, dest, ["2.9.0"])] == ["2.9.0"]
    with pytest.raises(FaultyPartsError, match=r"torch-2\.8\.0.*missing"):
        unpack(out, dest)
    made(index, out, "2.8.0")
    assert {t.torch for t in unpack(out, dest, ["2.8.0"])} == {"2.8.0", "2.9.0"}
    with pytest.raises(WheelhouseError, match=r"no torch 2\.7\.0"):
        unpack(out, dest, ["2.7.0"])


def test_folders_for_carrying_hold_to_their_limit_and_to_the_order(index: Path, tmp_path: Path) -> None:
    out = made(index, made(index, tmp_path / "out", "2.8.0"), "2.9.0")
    limit = (out / MANIFEST).stat().st_size + 3000
    folders = pack_calls(out, limit, ["2.9.0", "2.8.0"])
    assert not list(out.glob("*.part"))
    assert all(sum(f.stat().st_size for f in d.iterdir()) <= limit for d in folders)
    carried = tmp_path / "carried"
    carried.mkdir()
    served: list[list[str]] = []
    for folder in folders:
        folder.rename(carried / folder.name)
        try:
            served.append([t.torch for t in unpack(carried, tmp_path / "wheels", ["2.9.0"])])
        except FaultyPartsError:
            served.append([])
    assert served[-1] == ["2.9.0"]
    assert len(unpack(carried, tmp_path / "wheels")) == 2


def test_two_manifests_that_differ_are_refused(index: Path, tmp_path: Path) -> None:
    made(index, tmp_path / "both" / "one", "2.8.0")
    made(index, tmp_path / "both" / "two", "2.9.0")
    with pytest.raises(WheelhouseError, match="2 manifests that differ"):
        unpack(tmp_path / "both", tmp_path / "wheels")
    with pytest.raises(WheelhouseError, match=r"has no manifest\.json"):
        unpack(index, tmp_path / "wheels")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "not a wheelhouse's manifest"),
        ('{"kind": "other", "schema": 1}', "schema None"),
        ('{"kind": "wheelhouse", "schema": 99}', "schema 99"),
        ('{"kind": "wheelhouse", "schema": 1, "targets": {}}', "incomplete"),
    ],
)
def test_a_broken_manifest_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(WheelhouseError, match=fault):
        unpack(tmp_path, tmp_path / "wheels")


def test_a_manifest_cannot_write_outside_its_folder(index: Path, tmp_path: Path) -> None:
    out = made(index, tmp_path / "out")
    text = (out / MANIFEST).read_text()
    (out / MANIFEST).write_text(text.replace("sympy-1.0-py3-none-any.whl", "../sympy.whl"))
    with pytest.raises(WheelhouseError, match="leaves its folder"):
        unpack(out, tmp_path / "wheels")


def test_a_manifest_reads_back_as_it_was_written(index: Path, tmp_path: Path) -> None:
    manifest = read(made(index, tmp_path / "out", reuse_host=True) / MANIFEST)
    write(tmp_path / "copy.json", manifest)
    assert read(tmp_path / "copy.json") == manifest


def test_an_original_with_another_hash_is_refused(index: Path, tmp_path: Path) -> None:
    pin = resolve.Pin("sympy", "1.0", "sympy-1.0-py3-none-any.whl", "unused", "0" * 64)
    with pytest.raises(WheelhouseError, match="the index says 0000"):
        resolve.fetch(pin, index)


def test_what_does_not_resolve_is_said(index: Path, tmp_path: Path) -> None:
    with pytest.raises(WheelhouseError, match="uv found no set of wheels"):
        made(index, tmp_path / "out", "2.7.0")


def test_the_best_wheel_for_the_far_host_is_taken() -> None:
    names = [
        "torch-2.10.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-3-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-cp312-cp312-manylinux_2_28_aarch64.whl",
        "torch-2.10.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-cp312-none-macosx_11_0_arm64.whl",
    ]
    rows = "".join(f'{{ url = "file:///w/{n}", hashes = {{ sha256 = "x" }} }},' for n in names)
    lock = f'[[packages]]\nname = "torch"\nversion = "2.10.0"\nwheels = [{rows}]\n'
    (pin,) = resolve.read_lock(lock, "3.12", (2, 28))
    assert pin.filename == names[1]
    with pytest.raises(WheelhouseError, match=r"no wheel for Python 3\.13"):
        resolve.read_lock(lock, "3.13", (2, 28))


def test_the_hosts_libraries_fill_in_what_the_environment_lacks(tmp_path: Path) -> None:
    host, site = tmp_path / "host", tmp_path / "site"
    for path in ("cu13/lib/libcublas.so.13", "nccl/lib/libnccl.so.2", "nccl/include/nccl.h"):
        (host / "nvidia" / path).parent.mkdir(parents=True, exist_ok=True)
        (host / "nvidia" / path).write_text("host's")
    (host / "nvidia_cublas-13.1.0.3.dist-info").mkdir()
    (host / "nvidia_cublas-13.1.0.3.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: nvidia-cublas\nVersion: 13.1.0.3\n"
    )
    (site / "nvidia/nccl/lib").mkdir(parents=True)
    (site / "nvidia/nccl/lib/libnccl.so.2").write_text("own")
    for _ in range(2):
        assert link_host_libraries(site, host) == {"nvidia-cublas": "13.1.0.3"}
    assert (site / "nvidia/cu13/lib/libcublas.so.13").read_text() == "host's"
    assert (site / "nvidia/nccl/include/nccl.h").read_text() == "host's"
    assert (site / "nvidia/nccl/lib/libnccl.so.2").read_text() == "own"
    assert (host / "nvidia/nccl/lib/libnccl.so.2").read_text() == "host's"
    assert json.loads((site / RECORD).read_text()) == {"nvidia-cublas": "13.1.0.3"}
    with pytest.raises(WheelhouseError, match="no nvidia libraries to lend"):
        link_host_libraries(site, tmp_path)


def test_unpacking_needs_the_standard_library_alone(index: Path, tmp_path: Path) -> None:
    out = made(index, tmp_path / "out")
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path;"
        "from harness.wheelhouse.unpack import unpack;"
        "print(len(unpack(Path(sys.argv[2]), Path(sys.argv[3]))[0].wheels))"
    )
    done = subprocess.run(
        [bare / "bin/python", "-I", "-c", code, ROOT, out, tmp_path / "wheels"],
        capture_output=True,
        text=True,
    )
    assert (done.stdout.strip(), done.returncode) == ("5", 0), done.stderr
    assert sys.version_info >= (3, 11)
