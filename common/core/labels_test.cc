#include "common/core/labels.h"

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

TEST(LabelsTest, KeysAreNamesWithAPrefixOrWithout) {
  const std::string longest(63, 'a');
  for (const std::string& key :
       {std::string("a"), std::string("A.b-c_9"), std::string("1"), std::string("example.com/team"),
        longest, longest + "/" + longest}) {
    EXPECT_TRUE(IsLabelKey(key)) << key;
  }
  for (const std::string& key :
       {std::string(), std::string("-a"), std::string("a-"), std::string("a b"), std::string("/a"),
        std::string("a/"), std::string("a/b/c"), std::string("a=b"), std::string("\xc3\xa4"),
        std::string("a\0b", 3), longest + "a", longest + "a/b"}) {
    EXPECT_FALSE(IsLabelKey(key)) << key;
  }
}

TEST(LabelsTest, ValuesAreNamesWithoutAPrefixOrEmpty) {
  const std::string longest(63, 'z');
  for (const std::string& value : {std::string(), std::string("v1.2"), longest}) {
    EXPECT_TRUE(IsLabelValue(value)) << value;
  }
  for (const std::string& value :
       {std::string("a/b"), std::string("."), std::string("a,b"), longest + "z"}) {
    EXPECT_FALSE(IsLabelValue(value)) << value;
  }
}

TEST(RelabelledTest, ChangesAreMadeInTheirOrder) {
  const JobLabels before = {{"model", "llama"}, {"team", "vision"}};
  const auto after = [&](const std::vector<std::string>& changes) {
    return Relabelled(before, changes).value();
  };
  EXPECT_EQ(after({}), before);
  EXPECT_EQ(after({"model=resnet", "nightly="}),
            (JobLabels{{"model", "resnet"}, {"nightly", ""}, {"team", "vision"}}));
  EXPECT_EQ(after({"team-", "gone-"}), (JobLabels{{"model", "llama"}}));
  EXPECT_EQ(after({"team-", "team=audio"}), (JobLabels{{"model", "llama"}, {"team", "audio"}}));
  EXPECT_EQ(after({"team=audio", "team-"}), (JobLabels{{"model", "llama"}}));
}

TEST(RelabelledTest, WhatIsNoChangeIsRefusedAndNamed) {
  for (const char* wrong : {"", "-", "team", "team--", "=a", "te am=a", "team=a b", "team=a=b",
                            "team=-", "a/b/c-", "-team="}) {
    const std::vector<std::string> changes = {wrong};
    const absl::StatusOr<JobLabels> labels = Relabelled({}, changes);
    EXPECT_EQ(labels.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(labels.status().message()), HasSubstr(absl::StrCat("\"", wrong, "\"")));
  }
}

bool Matches(const std::string& selector, const JobLabels& labels) {
  const absl::StatusOr<LabelSelector> parsed = LabelSelector::Parse(selector);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() && parsed->Matches(labels);
}

TEST(LabelSelectorTest, EachFormSaysWhatItReads) {
  const JobLabels labels = {{"model", "llama"}, {"nightly", ""}, {"a.b/c", "1"}};
  for (const char* holds :
       {"", "  ", "model", "model=llama", "model==llama", "model!=resnet", "team!=vision", "!team",
        "nightly=", "nightly", "a.b/c=1", " model = llama , nightly , ! team "}) {
    EXPECT_TRUE(Matches(holds, labels)) << holds;
  }
  for (const char* fails : {"team", "model=resnet", "model!=llama", "!model",
                            "nightly!=", "team=", "model=llama,team", "Model=llama"}) {
    EXPECT_FALSE(Matches(fails, labels)) << fails;
  }
}

TEST(LabelSelectorTest, WhatIsNoSelectorIsRefusedWithItsCondition) {
  for (const char* wrong : {",", "a,", "=b", "!=b", "!", "!!a", "a=b=c", "a===b", "a=b c", "a/b/c",
                            "a in (b)", "!a=b", "a!b", "a=\x01"}) {
    EXPECT_EQ(LabelSelector::Parse(wrong).status().code(), absl::StatusCode::kInvalidArgument)
        << wrong;
  }
  EXPECT_THAT(std::string(LabelSelector::Parse("model=llama,te am").status().message()),
              HasSubstr("has \"te am\""));
}

TEST(LabelSelectorTest, HasABound) {
  const std::vector<std::string> most(LabelSelector::kMostConditions, "a");
  EXPECT_TRUE(LabelSelector::Parse(absl::StrJoin(most, ",")).ok());
  EXPECT_FALSE(LabelSelector::Parse(absl::StrCat(absl::StrJoin(most, ","), ",a")).ok());
}

// One condition with the labels that it accepts, by an obvious other way: a label that is not there
// is the value "(none)".
struct Condition {
  std::string text;
  std::string key;
  std::set<std::string> accepted;
};

// A small world: two keys, each with one of two values, empty, or not there.
const std::vector<std::string>& Values() {
  static const auto* const values = new std::vector<std::string>{"(none)", "", "x", "y"};
  return *values;
}

std::vector<Condition> AllConditions() {
  std::vector<Condition> conditions;
  for (const std::string& key : {std::string("k"), std::string("l")}) {
    conditions.push_back({key, key, {"", "x", "y"}});
    conditions.push_back({"!" + key, key, {"(none)"}});
    for (const std::string& value : {std::string(), std::string("x"), std::string("y")}) {
      std::set<std::string> others(Values().begin(), Values().end());
      others.erase(value);
      conditions.push_back({key + "=" + value, key, {value}});
      conditions.push_back({key + "==" + value, key, {value}});
      conditions.push_back({key + "!=" + value, key, std::move(others)});
    }
  }
  return conditions;
}

TEST(LabelSelectorTest, AgreesWithABruteForceModelForAllPairsOfConditions) {
  const std::vector<Condition> conditions = AllConditions();
  for (const std::string& k : Values()) {
    for (const std::string& l : Values()) {
      JobLabels labels;
      if (k != "(none)") labels["k"] = k;
      if (l != "(none)") labels["l"] = l;
      const auto accepts = [&](const Condition& condition) {
        return condition.accepted.count(condition.key == "k" ? k : l) > 0;
      };
      for (const Condition& a : conditions) {
        ASSERT_EQ(Matches(a.text, labels), accepts(a)) << a.text << " of k " << k << ", l " << l;
        for (const Condition& b : conditions) {
          const std::string both = absl::StrCat(a.text, ",", b.text);
          ASSERT_EQ(Matches(both, labels), accepts(a) && accepts(b))
              << both << " of k " << k << ", l " << l;
        }
      }
    }
  }
}

// Whatever is read either is refused, or chooses: no text crashes, and what is appended to a
// selector never makes it choose more.
TEST(LabelSelectorTest, AnyTextIsReadOrRefusedAndConditionsOnlyNarrow) {
  std::mt19937 random(7);
  const std::string letters = "kl=!x, ./-\x80";
  const JobLabels labels = {{"k", "x"}, {"l", ""}};
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t n = random() % 8; n > 0; --n) text += letters[random() % letters.size()];
    const auto selector = LabelSelector::Parse(text);
    if (!selector.ok()) continue;
    ++read;
    const bool is_empty = text.find_first_not_of(' ') == std::string::npos;
    const auto narrower = LabelSelector::Parse(absl::StrCat(is_empty ? "" : text + ",", "k"));
    ASSERT_TRUE(narrower.ok()) << text;
    ASSERT_TRUE(selector->Matches(labels) || !narrower->Matches(labels)) << text;
  }
  EXPECT_GT(read, 1000);
}

}  // namespace
}  // namespace paceline
