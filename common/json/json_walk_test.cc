#include "common/json/json_walk.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace paceline {
namespace {

// Records what it gets; refuses the value at `refused`.
class Recorder : public JsonVisitor {
 public:
  absl::Status Begin(const JsonPath& path, JsonContainer container) override {
    seen += JsonPathText(path) + (container == JsonContainer::kObject ? "{ " : "[ ");
    return absl::OkStatus();
  }
  absl::Status Scalar(const JsonPath& path, const JsonScalar& value) override {
    const std::string text = JsonPathText(path);
    seen += text + "#" + std::to_string(value.index()) + " ";
    return text == refused ? absl::NotFoundError("refused") : absl::OkStatus();
  }
  absl::Status End(const JsonPath& path, JsonContainer container) override {
    seen += JsonPathText(path) + (container == JsonContainer::kObject ? "} " : "] ");
    return absl::OkStatus();
  }

  std::string refused = "none";
  std::string seen;
};

void ExpectDamage(const std::string& text, const std::string& message) {
  Recorder recorder;
  const absl::Status status = WalkJson(text, recorder);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), message)) << status;
}

TEST(JsonWalkTest, ValuesComeInOrderWithPathAndKind) {
  Recorder recorder;
  ASSERT_TRUE(WalkJson(R"({"a":[-1,2,{"b":0.5}],"c":{"d":true},"e":["x",null]})", recorder).ok());
  EXPECT_EQ(recorder.seen,
            "{ a[ a[0]#0 a[1]#1 a[2]{ a[2].b#2 a[2]} a] c{ c.d#3 c} e[ e[0]#4 e[1]#5 e] } ");
}

TEST(JsonWalkTest, TheVisitorsErrorEndsTheWalk) {
  Recorder recorder;
  recorder.refused = "b";
  EXPECT_EQ(WalkJson(R"({"a":1,"b":2,"c":3})", recorder).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(recorder.seen, "{ a#1 b#1 ");
}

TEST(JsonWalkTest, KeysThatComeTwiceInOneObjectAreRefused) {
  ExpectDamage(R"({"a":{"b":1,"b":2}})", "a.b: comes twice");
  ExpectDamage(R"({"a":1,"\u0061":2})", "a: comes twice");
  Recorder recorder;
  EXPECT_TRUE(WalkJson(R"([{"a":{"a":1}},{"a":1}])", recorder).ok());
}

TEST(JsonWalkTest, WhatIsNoJsonIsRefusedWithItsOffset) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1}x", "nul", "1e999", "\"\xff\"",
                           "{\"\xc0\x80\":1}", "\"\\ud800\""}) {
    ExpectDamage(text, "no JSON in UTF-8");
  }
  ExpectDamage(std::string("{}\0{}", 5), "offset 2");
}

TEST(JsonWalkTest, DepthIsLimited) {
  Recorder recorder;
  const std::string deep(kMaxJsonDepth, '[');
  EXPECT_TRUE(WalkJson(deep + std::string(kMaxJsonDepth, ']'), recorder).ok());
  ExpectDamage(std::string(8'000'000, '['), "nested deeper than 32");
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) objects += R"({"a":)";
  ExpectDamage(objects, "nested deeper than 32");
}

TEST(JsonWalkTest, CompactJsonKeepsTheValue) {
  const absl::StatusOr<std::string> text = CompactJson(
      "{ \"b\": [1, -2, 0.25, 1e22, \"x\\n\\u0001\"],\n \"a\": {\"\": null}, \"e\": [], \"f\": {} "
      "}");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, R"({"b":[1,-2,0.25,1e+22,"x\n\u0001"],"a":{"":null},"e":[],"f":{}})");
  EXPECT_EQ(CompactJson(*text).value(), *text);
  EXPECT_EQ(CompactJson("7").value(), "7");
  EXPECT_FALSE(CompactJson("{").ok());
}

TEST(JsonWalkTest, QuotedTextIsAlwaysUtf8) {
  EXPECT_EQ(JsonQuoted("a\"\\\xc3\xa4"), "\"a\\\"\\\\\xc3\xa4\"");
  EXPECT_EQ(JsonQuoted("\xff"), "\"\xef\xbf\xbd\"");
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("a\n\xc3\xa4\xef\xbf\xbd"));
  for (const char* text : {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80"}) EXPECT_FALSE(IsUtf8(text));
}

}  // namespace
}  // namespace paceline
