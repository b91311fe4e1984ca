// Whatever a trainer writes to its socket, its daemon cuts it into the same messages, however it
// arrives, and refuses the others. The first byte is the size of the parts that arrive.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/trainer.pb.h"
#include "tests/fuzz/expect.h"
#include "worker/link/frame.h"

namespace paceline {
namespace {

struct Received {
  std::vector<std::string> payloads;
  bool refused = false;
};

Received Receive(absl::string_view stream, size_t part) {
  Received received;
  FrameDecoder decoder;
  for (size_t at = 0; at < stream.size() && !received.refused; at += part) {
    decoder.Append(stream.substr(at, part));
    while (true) {
      const auto payload = decoder.Next();
      received.refused = !payload.ok();
      if (!payload.ok() || !payload->has_value()) break;
      PACELINE_EXPECT((*payload)->size() <= kMaxFrameBytes);
      received.payloads.push_back(**payload);
    }
  }
  return received;
}

void Read(absl::string_view contents) {
  if (contents.empty()) return;
  const absl::string_view stream = contents.substr(1);
  const Received whole = Receive(stream, stream.size() + 1);
  const Received parts = Receive(stream, 1 + static_cast<unsigned char>(contents[0]));
  PACELINE_EXPECT(whole.payloads == parts.payloads && whole.refused == parts.refused);
  std::string again;
  for (const std::string& payload : whole.payloads) {
    again += EncodeFrame(payload);
    v1::TrainerStatus status;
    if (!status.ParseFromString(payload)) continue;
    v1::TrainerStatus same;
    PACELINE_EXPECT(same.ParseFromString(status.SerializeAsString()));
  }
  PACELINE_EXPECT(stream.substr(0, again.size()) == again);
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
