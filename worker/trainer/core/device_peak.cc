#include "worker/trainer/core/device_peak.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

struct Entry {
  absl::string_view name;  // In lower case.
  DevicePeaks peaks;
};

// From the vendors' documents, dense, per GPU (of the MI250X: per die, which is a device of its
// own). TF32 of NVIDIA's is half of bfloat16's in each of them that has both.
constexpr Entry kPeaks[] = {
    // NVIDIA T4 Tensor Core GPU data sheet. It has no bfloat16, and no TF32: torch then computes in
    // float32, whatever its settings.
    {"t4", {0, 8.1e12, 8.1e12}},
    // NVIDIA A10, A30 and A40 data sheets.
    {"a10", {125e12, 62.5e12, 31.2e12}},
    {"a30", {165e12, 82e12, 10.3e12}},
    {"a40", {149.7e12, 74.8e12, 37.4e12}},
    // NVIDIA A100 Tensor Core GPU data sheet (2021).
    {"a100", {312e12, 156e12, 19.5e12}},
    // NVIDIA Ampere GA102 whitepaper, table of the RTX A6000.
    {"a6000", {154.85e12, 77.4e12, 38.7e12}},
    // NVIDIA H100 Tensor Core GPU data sheet: SXM, NVL, PCIe.
    {"h100", {989e12, 494.5e12, 67e12}},
    {"h100 nvl", {835e12, 417.5e12, 60e12}},
    {"h100 pcie", {756e12, 378e12, 51e12}},
    // NVIDIA H200 Tensor Core GPU data sheet: SXM, NVL; GH200 Grace Hopper Superchip data sheet.
    {"h200", {989e12, 494.5e12, 67e12}},
    {"gh200", {989e12, 494.5e12, 67e12}},
    {"h200 nvl", {835e12, 417.5e12, 60e12}},
    // Of these, NVIDIA has published no figure for float32 that all its documents share, and of the
    // H20 none for TF32. bfloat16: torchtitan v0.2.2, tools/utils.py. TF32: NVIDIA HGX B200 and
    // GB200 NVL72 data sheets.
    {"h20", {148e12, 0, 0}},
    {"b200", {2.25e15, 1.125e15, 0}},
    {"b300", {2.25e15, 1.125e15, 0}},
    {"gb200", {2.5e15, 1.25e15, 0}},
    {"gb300", {2.5e15, 1.25e15, 0}},
    // NVIDIA L4 data sheet, which has tensor rates with sparsity: half of them.
    {"l4", {121e12, 60e12, 30.3e12}},
    // NVIDIA L40S data sheet.
    {"l40s", {362e12, 183e12, 91.6e12}},
    // AMD Instinct MI250X, MI300X, MI325X and MI355X data sheets, matrix rates. The first and the
    // last have no TF32. bfloat16 of the last three is compute units x operations per clock x clock
    // (304 x 2,048 x 2.1 GHz, 256 x 4,096 x 2.4 GHz), which AMD rounds to 1.3 and 2.5 PFLOP/s.
    {"mi250x", {191.5e12, 0, 47.85e12}},
    {"mi300x", {1307.4e12, 653.7e12, 163.4e12}},
    {"mi325x", {1307.4e12, 653.7e12, 163.4e12}},
    {"mi355x", {2516.6e12, 0, 157.3e12}},
};

// Whether this is within a word, if it is there at all.
bool IsInWord(absl::string_view name, size_t at) {
  return at < name.size() && absl::ascii_isalnum(static_cast<unsigned char>(name[at]));
}

// Whether `name` contains `part` as whole words: an "A1000" or "A10G" is no "A10".
bool Names(absl::string_view name, absl::string_view part) {
  for (size_t at = name.find(part); at != name.npos; at = name.find(part, at + 1)) {
    const bool begins = at == 0 || !IsInWord(name, at - 1);
    if (begins && !IsInWord(name, at + part.size())) return true;
  }
  return false;
}

// Whether the name ends in a profile of a virtual GPU: "-24Q", "-1-5CME".
bool HasProfile(absl::string_view name) {
  absl::string_view last = name.substr(name.rfind('-') + 1);
  absl::ConsumeSuffix(&last, "me");
  if (last.size() < 2 || !absl::StrContains("abcq", last.substr(last.size() - 1))) return false;
  last.remove_suffix(1);
  return last.find_first_not_of("0123456789") == last.npos;
}

// A slice of a device, as "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "GRID A100-10C" or "NVIDIA A10-24Q",
// has a part of its peak.
bool IsSlice(absl::string_view name) {
  return absl::StrContains(name, " mig ") || absl::StartsWith(name, "grid ") || HasProfile(name);
}

}  // namespace

std::optional<DevicePeaks> PeaksOfDevice(absl::string_view device_name) {
  const std::string name = absl::AsciiStrToLower(device_name);
  if (IsSlice(name)) return std::nullopt;
  const Entry* best = nullptr;
  for (const Entry& entry : kPeaks) {
    if (!Names(name, entry.name)) continue;
    if (best == nullptr || entry.name.size() > best->name.size()) best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  return best->peaks;
}

std::optional<double> PeakFlops(const DevicePeaks& peaks, const Flops& flops, Tf32Use tf32) {
  const struct {
    double flops;
    double peak;
  } parts[] = {
      {flops.half, peaks.bf16},
      {flops.matrices, tf32.matrices ? peaks.tf32 : peaks.fp32},
      {flops.convolutions, tf32.convolutions ? peaks.tf32 : peaks.fp32},
      {flops.other, 0},
  };
  double seconds = 0;
  for (const auto& part : parts) {
    if (!(part.flops > 0)) continue;
    if (!(part.peak > 0)) return std::nullopt;
    seconds += part.flops / part.peak;
  }
  if (!(seconds > 0)) return std::nullopt;
  return flops.total() / seconds;
}

std::optional<double> Mfu(double flops, double seconds, double peak_flops) {
  if (!(flops > 0) || !(seconds > 0)) return std::nullopt;
  const double mfu = flops / seconds / peak_flops;
  if (!(mfu <= 1)) return std::nullopt;
  return mfu;
}

}  // namespace paceline
