#include "cli/completion/man_page.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

TEST(ManPageTest, TextIsNoCommandOfRoff) {
  CompletionCommand root;
  root.path = "paceline";
  root.what = "Trains";
  CompletionCommand verb;
  verb.path = "paceline go";
  verb.what = ".hidden 'quoted' back\\slash";
  verb.arguments = {{"JOB", true, true, {}, "jobs", "A job"}};
  CompletionFlag flag;
  flag.names = {"--to", "-t"};
  flag.takes_value = true;
  flag.choices = {"a", "b"};
  flag.what = "Where";
  flag.standard = "a";
  verb.flags = {flag};
  verb.own_flags = 1;
  root.subcommands = {"go"};
  const std::string page =
      ManPage({root, verb}, "1.0", [](const std::string& path) { return path + " x\n.y\n"; });
  EXPECT_THAT(page, HasSubstr(".SS \\fBpaceline go\\fR \\fIJOB\\fR...\n"
                              "\\&.hidden \\(aqquoted\\(aq back\\eslash.\n"
                              ".TP\n\\fIJOB\\fR\nA job\n"
                              ".TP\n\\fB\\-\\-to\\fR, \\fB\\-t\\fR \\fIVALUE\\fR\n"
                              "Where: a, b (a)\n"
                              ".PP\n.EX\npaceline go x\n\\&.y\n.EE\n"));
}

}  // namespace
}  // namespace paceline
