// Whatever a configuration holds, it is refused or names contexts that can be used.
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "cli/config/config_file.h"
#include "tests/fuzz/expect.h"

namespace paceline {
namespace {

void Read(absl::string_view contents) {
  const absl::StatusOr<CliConfig> config = ParseConfig(std::string(contents), "config.yaml");
  if (!config.ok()) {
    PACELINE_EXPECT(absl::IsInvalidArgument(config.status()));
    return;
  }
  for (const auto& [name, context] : config->contexts) {
    PACELINE_EXPECT(CheckContextName(name).ok());
    PACELINE_EXPECT(CheckServerAddress(context.server).ok());
    PACELINE_EXPECT(context.token_file.empty() || (!context.ca.empty() && context.key.empty()));
    PACELINE_EXPECT(context.ca.empty() || !context.plaintext);
  }
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
