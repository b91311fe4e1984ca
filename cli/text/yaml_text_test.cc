#include "cli/text/yaml_text.h"

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"
#include "yaml-cpp/yaml.h"

namespace paceline {
namespace {

TEST(YamlTextTest, KeepsOrderAndShape) {
  EXPECT_EQ(JsonAsYaml(R"({"b": 1, "a": [{"x": "y z"}, 2.5], "none": [], "empty": {}})"),
            "b: 1\n"
            "a:\n"
            "  - x: y z\n"
            "  - 2.5\n"
            "none: []\n"
            "empty: {}\n");
}

TEST(YamlTextTest, QuotesTextsThatAreNoTextsWithoutQuotes) {
  EXPECT_EQ(JsonAsYaml(R"({"a": "12", "b": "true", "c": "", "d": "No", "e": "x: y", "f": "~"})"),
            "a: \"12\"\nb: \"true\"\nc: \"\"\nd: \"No\"\ne: \"x: y\"\nf: \"~\"\n");
  EXPECT_EQ(JsonAsYaml(R"({"on": 1, "a": true, "b": null})"), "\"on\": 1\na: true\nb: null\n");
}

TEST(YamlTextTest, NumbersAreNumbersForEveryReader) {
  EXPECT_EQ(JsonAsYaml("[1e+20, -7, 0.25]"), "- 1.0e+20\n- -7\n- 0.25\n");
}

TEST(YamlTextTest, ControlCharactersAndReorderingMarksAreEscaped) {
  const std::string yaml = JsonAsYaml("{\"a\": \"x\\u001b[2J\\ny\", \"b\": \"\u202ez\"}");
  EXPECT_EQ(yaml.find('\x1b'), std::string::npos);
  EXPECT_EQ(yaml.find("\u202e"), std::string::npos);
  const YAML::Node node = YAML::Load(yaml);
  EXPECT_EQ(node["a"].Scalar(), "x\x1b[2J\ny");
  EXPECT_EQ(node["b"].Scalar(), "\u202ez");
}

}  // namespace
}  // namespace paceline
