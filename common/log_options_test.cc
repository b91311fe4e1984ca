#include "common/log_options.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline {
namespace {

using nlohmann::json;

json LineOf(const std::string& message) {
  const absl::Time time = absl::FromUnixMillis(1772366400123);
  return json::parse(JsonLogLine(time, LogLevel::kWarning, "controller", message));
}

TEST(JsonLogLineTest, HasTheEventAndItsFields) {
  EXPECT_EQ(LineOf("worker_connected node=w1 peer=127.0.0.1:7450"),
            json({{"time", "2026-03-01T12:00:00.123Z"},
                  {"level", "warning"},
                  {"component", "controller"},
                  {"event", "worker_connected"},
                  {"message", "worker_connected node=w1 peer=127.0.0.1:7450"},
                  {"node", "w1"},
                  {"peer", "127.0.0.1:7450"}}));
}

TEST(JsonLogLineTest, AValueInQuotesEndsWhereABlankFollowsThem) {
  const json line = LineOf("fenced reason=\"it said \"no\", twice\" rank=3 empty=\"\" last=");
  EXPECT_EQ(line["reason"], "it said \"no\", twice");
  EXPECT_EQ(line["rank"], "3");
  EXPECT_EQ(line["empty"], "");
  EXPECT_EQ(line["last"], "");
}

TEST(JsonLogLineTest, AFieldReplacesNothingOfTheLineItself) {
  const json line = LineOf("job_state level=debug component=me event=other message=x time=0");
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["component"], "controller");
  EXPECT_EQ(line["event"], "job_state");
  EXPECT_EQ(line["time"], "2026-03-01T12:00:00.123Z");
}

TEST(JsonLogLineTest, ProseIsKeptAsItIs) {
  const json line = LineOf("no MFU: the peak of \"CPU\" is unknown (see=docs");
  EXPECT_EQ(line["message"], "no MFU: the peak of \"CPU\" is unknown (see=docs");
  EXPECT_EQ(line["event"], "no");
  EXPECT_EQ(line.size(), 5);
}

TEST(JsonLogLineTest, WhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(LineOf("job_state name=a\xff!")["name"], "a\xef\xbf\xbd!");
  EXPECT_EQ(LineOf("quote \" and \\ and \t")["message"], "quote \" and \\ and \t");
}

TEST(LogOptionsTest, LevelsHaveNames) {
  for (const char* name : {"debug", "info", "warning", "error"}) {
    const std::optional<LogLevel> level = ParseLogLevel(name);
    ASSERT_TRUE(level.has_value()) << name;
    EXPECT_STREQ(LogLevelName(*level), name);
    SetLogLevel(*level);
    EXPECT_EQ(CurrentLogLevel(), *level);
  }
  EXPECT_EQ(ParseLogLevel("loud"), std::nullopt);
  EXPECT_EQ(ParseLogLevel("fatal"), std::nullopt);
}

// Death tests run in a separate process, whose standard error they check.
TEST(LogOptionsDeathTest, WritesJson) {
  const auto die = [] {
    SetLogFormat(LogFormat::kJson, "worker");
    PACELINE_LOG(INFO) << "trainer_started job=j1";
    std::_Exit(3);
  };
  EXPECT_EXIT(die(), ::testing::ExitedWithCode(3), "\"event\":\"trainer_started\"");
}

TEST(LogOptionsDeathTest, ControlCharactersForgeNoLine) {
  const auto die = [] {
    PACELINE_LOG(INFO) << "job_state name=a\n2026 E forged\x1b[2J";
    std::_Exit(3);
  };
  EXPECT_EXIT(die(), ::testing::ExitedWithCode(3), "name=a\\\\x0a2026 E forged\\\\x1b\\[2J");
}

}  // namespace
}  // namespace paceline
