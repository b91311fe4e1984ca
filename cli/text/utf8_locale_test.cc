#include "cli/text/utf8_locale.h"

#include <gtest/gtest.h>

#include <map>

namespace paceline {
namespace {

bool Speaks(const std::map<std::string, std::string>& environment) {
  return SpeaksUtf8([&](const std::string& name) {
    const auto at = environment.find(name);
    return at == environment.end() ? std::string() : at->second;
  });
}

TEST(Utf8LocaleTest, TheFirstThatIsSetCounts) {
  EXPECT_TRUE(Speaks({{"LANG", "en_US.UTF-8"}}));
  EXPECT_TRUE(Speaks({{"LC_CTYPE", "C.utf8"}, {"LANG", "C"}}));
  EXPECT_FALSE(Speaks({{"LC_ALL", "C"}, {"LANG", "en_US.UTF-8"}}));
  EXPECT_TRUE(Speaks({{"LC_ALL", ""}, {"LANG", "de_DE.UTF-8"}}));
}

TEST(Utf8LocaleTest, WithoutAWordItIsAscii) {
  EXPECT_FALSE(Speaks({}));
  EXPECT_FALSE(Speaks({{"LANG", "C"}}));
}

}  // namespace
}  // namespace paceline
