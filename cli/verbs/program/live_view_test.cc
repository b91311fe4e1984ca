#include "cli/verbs/program/live_view.h"

#include <sstream>
#include <string>

#include "cli/rpc/interrupt.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(CutToHeightTest, LeavesTheCursorsLineFree) {
  EXPECT_EQ(CutToHeight("a\nb\n", 0), "a\nb\n") << "0 is unlimited";
  EXPECT_EQ(CutToHeight("a\nb\n", 3), "a\nb\n");
  EXPECT_EQ(CutToHeight("a\nb\nc\n", 3), "a\n... 2 more lines\n");
  EXPECT_EQ(CutToHeight("a\nb\n", 1), "... 2 more lines\n");
}

// What a terminal with many rows shows after `output`.
std::string Screen(const std::string& output) {
  std::string screen;
  for (size_t i = 0; i < output.size(); ++i) {
    if (output[i] == '\r') continue;
    if (output[i] != '\x1b') {
      screen += output[i];
      continue;
    }
    const size_t end = output.find_first_of("AJhl", i);
    if (output[end] == 'A') {
      for (int up = std::stoi(output.substr(i + 2)); up > 0; --up) {
        screen.pop_back();
        screen.resize(screen.rfind('\n') + 1);
      }
    }
    i = end;
  }
  return screen;
}

TEST(LiveViewTest, TextIsReplacedAndMessagesStayAboveIt) {
  std::ostringstream terminal;
  Interrupt interrupt;
  Program program({terminal, terminal, true, 80, [](const char*) { return std::string(); }, 24},
                  interrupt);
  std::string text = "one\ntwo\n";
  {
    LiveView view(program, [&] { return text; });
    view.Say("the controller is away");
    view.Update([&] { text = "three\n"; });
  }
  EXPECT_EQ(Screen(terminal.str()), "one\ntwo\nthe controller is away\nthree\n");
}

}  // namespace
}  // namespace paceline
