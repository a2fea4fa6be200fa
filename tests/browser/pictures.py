"""What a screenshot holds, read by the browser itself: no picture library is needed.

Pictures are compared loosely: whether something is drawn, on which ground, and roughly where. No golden files: fonts
and rendering differ from machine to machine.
"""

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Any

GRID = 24

_READ = """async ([png, boxes, grid]) => {
  const blob = await (await fetch("data:image/png;base64," + png)).blob();
  const image = await createImageBitmap(blob);
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  return boxes.map(([x, y, w, h]) => {
    w = Math.max(1, Math.min(Math.round(w), image.width - Math.round(x)));
    h = Math.max(1, Math.min(Math.round(h), image.height - Math.round(y)));
    const data = context.getImageData(Math.round(x), Math.round(y), w, h).data;
    const light = new Uint8Array(w * h), seen = new Uint32Array(256);
    for (let i = 0; i < light.length; i++) {
      light[i] = 0.2126 * data[4 * i] + 0.7152 * data[4 * i + 1] + 0.0722 * data[4 * i + 2];
      seen[light[i]]++;
    }
    const ground = seen.indexOf(Math.max(...seen));
    const ink = new Array(grid * grid).fill(0), all = new Array(grid * grid).fill(0);
    for (let i = 0; i < light.length; i++) {
      const at = Math.floor(Math.floor(i / w) * grid / h) * grid + Math.floor((i % w) * grid / w);
      all[at]++;
      if (Math.abs(light[i] - ground) > 60) ink[at]++;
    }
    return { width: w, height: h, ground, ink: ink.map((n, at) => all[at] ? n / all[at] : 0) };
  });
}"""

# The commonest colours, each the mean of its neighbourhood; every other pixel takes the nearest of them.
_REDUCE = """async ([png, colours, width, height]) => {
  const blob = await (await fetch("data:image/png;base64," + png)).blob();
  const whole = await createImageBitmap(blob);
  const scale = Math.min(1, width / whole.width), w = Math.round(whole.width * scale);
  const h = Math.min(Math.round(whole.height * scale), height);
  const canvas = new OffscreenCanvas(w, h);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(whole, 0, 0, w, whole.height * scale);
  const data = context.getImageData(0, 0, w, h).data, bins = new Map();
  const key = i => (data[i] >> 3 << 10) | (data[i + 1] >> 3 << 5) | (data[i + 2] >> 3);
  for (let i = 0; i < data.length; i += 4) {
    const k = key(i), bin = bins.get(k) ?? bins.set(k, [0, 0, 0, 0]).get(k);
    bin[0]++; bin[1] += data[i]; bin[2] += data[i + 1]; bin[3] += data[i + 2];
  }
  const means = new Map([...bins].sort((a, b) => b[1][0] - a[1][0])
    .map(([k, [n, ...sums]]) => [k, sums.map(sum => Math.round(sum / n))]));
  const palette = [...means.values()].slice(0, colours), nearest = new Map(), pixels = new Uint8Array(w * h);
  for (const [k, mean] of means) {
    const far = palette.map(one => one.reduce((sum, value, j) => sum + (value - mean[j]) ** 2, 0));
    nearest.set(k, far.indexOf(Math.min(...far)));
  }
  for (let i = 0; i < data.length; i += 4) pixels[i / 4] = nearest.get(key(i));
  let text = "";
  for (let i = 0; i < pixels.length; i += 8192) text += String.fromCharCode(...pixels.subarray(i, i + 8192));
  return { width: w, height: h, palette, pixels: btoa(text) };
}"""


@dataclass(frozen=True)
class Look:
    """One part of a screenshot: pixels, the lightness of its ground (0 to 255), and the share of ink per tile."""

    width: int
    height: int
    ground: int
    ink: tuple[float, ...]

    @property
    def drawn(self) -> float:
        return sum(self.ink) / len(self.ink)

    def unlike(self, other: "Look") -> float:
        """How differently the ink lies, 0 to 1."""
        return sum(abs(a - b) for a, b in zip(self.ink, other.ink, strict=True)) / len(self.ink)


def looks(context: Any, png: bytes, boxes: list[list[float]]) -> list[Look]:
    """The parts ``boxes`` (x, y, width, height in pixels) of a screenshot."""
    page = context.new_page()
    try:
        found = page.evaluate(_READ, [base64.b64encode(png).decode(), boxes, GRID])
    finally:
        page.close()
    return [Look(one["width"], one["height"], one["ground"], tuple(one["ink"])) for one in found]


def small_picture(context: Any, png: bytes, *, width: int, height: int, colours: int = 32) -> bytes:
    """The screenshot as a PNG with a palette, scaled to ``width`` and cut at ``height`` pixels."""
    page = context.new_page()
    try:
        made = page.evaluate(_REDUCE, [base64.b64encode(png).decode(), colours, width, height])
    finally:
        page.close()
    wide, high, pixels = made["width"], made["height"], base64.b64decode(made["pixels"])
    lines = b"".join(b"\0" + pixels[y * wide : (y + 1) * wide] for y in range(high))
    header = struct.pack(">IIBBBBB", wide, high, 8, 3, 0, 0, 0)
    palette = bytes(value for colour in made["palette"] for value in colour)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", header),
            (b"PLTE", palette),
            (b"IDAT", zlib.compress(lines, 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
