// Whatever a trainer writes to its ring, before its daemon opens it or under its eyes, and wherever
// it cuts the file, the daemon's figures stay within what can be sent.
//
// The input is a list of changes to a sound ring, ten bytes each: an offset and eight bytes to
// write there. The second half of the changes is made when the ring is open.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/input_file.h"
#include "worker/daemon/trainers/ring_tail.h"
#include "worker/ring/ring_layout.h"

namespace paceline {
namespace {

constexpr uint32_t kCapacity = 4;
constexpr size_t kChange = 10;
const size_t kFileBytes = ring_layout::FileBytes(kCapacity);

std::string SoundRing() {
  std::string ring(kFileBytes, '\0');
  std::memcpy(ring.data(), ring_layout::kMagic, sizeof(ring_layout::kMagic));
  const uint32_t words[] = {ring_layout::kVersion, sizeof(ring_layout::Slot), kCapacity, 0};
  std::memcpy(&ring[offsetof(ring_layout::Header, version)], words, sizeof(words));
  const uint64_t bytes = kFileBytes;
  std::memcpy(&ring[offsetof(ring_layout::Header, file_bytes)], &bytes, sizeof(bytes));
  return ring;
}

void Change(const InputFile& ring, absl::string_view changes) {
  for (; changes.size() >= kChange; changes.remove_prefix(kChange)) {
    uint16_t offset = 0;
    std::memcpy(&offset, changes.data(), sizeof(offset));
    ring.Write(changes.substr(2, 8), offset % (kFileBytes - 7));
  }
}

void Look(RingTail& tail) {
  tail.Poll();
  const v1::Progress progress = tail.Progress(uint64_t{1} << 40);
  PACELINE_EXPECT(v1::Phase_IsValid(progress.phase()));
  PACELINE_EXPECT(tail.TakeDropped() >= 0);
  const auto batch = tail.TakeBatch();
  if (!batch.has_value()) return;
  PACELINE_EXPECT(batch->records_size() <= static_cast<int>(2 * kCapacity));
  for (const v1::StepRecord& record : batch->records()) {
    PACELINE_EXPECT(record.total_ns() >= 0 && record.samples() >= 0 && record.step() >= 0);
  }
}

void Read(absl::string_view contents) {
  const size_t half = contents.size() / (2 * kChange) * kChange;
  const InputFile ring(SoundRing());
  Change(ring, contents.substr(0, half));
  absl::StatusOr<RingTail> tail = RingTail::Open(ring.path());
  if (!tail.ok()) return;
  Look(*tail);
  Change(ring, contents.substr(half));
  Look(*tail);
  if (!contents.empty()) ring.Truncate(contents.back() % 2 == 0 ? 0 : kFileBytes / 2);
  Look(*tail);
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
