// Whatever a job file holds, it is refused with a place and a reason, or means the same when it is
// written out with every value.
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "cli/job_file/job_file.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/fuzz/expect.h"

namespace paceline {
namespace {

void ReadAndWriteAgain(absl::string_view contents) {
  const JobFile file = ParseJobFile(std::string(contents), "/jobs");
  for (const FileProblem& problem : file.problems) {
    PACELINE_EXPECT(problem.position.line >= 0 && !problem.message.empty());
    PositionOf(file, problem.message);
  }
  if (!file.problems.empty()) return;
  const JobFile again = ParseJobFile(SpecAsJobFile(file.spec), "/elsewhere");
  PACELINE_EXPECT(again.problems.empty());
  PACELINE_EXPECT(google::protobuf::util::MessageDifferencer::Equals(again.spec, file.spec));
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::ReadAndWriteAgain({reinterpret_cast<const char*>(data), size});
  return 0;
}
