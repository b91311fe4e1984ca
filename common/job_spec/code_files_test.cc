#include "common/job_spec/code_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::CodeFile File(const std::string& path, const std::string& data = "x") {
  v1::CodeFile file;
  file.set_path(path);
  file.set_data(data);
  return file;
}

v1::CodeFile Link(const std::string& path, const std::string& target) {
  v1::CodeFile file;
  file.set_path(path);
  file.set_link(target);
  return file;
}

// What is told of the last of them; empty: all are allowed.
std::string Problem(const std::vector<v1::CodeFile>& files) {
  CodeRules rules;
  for (size_t i = 0; i + 1 < files.size(); ++i) {
    const absl::Status status = rules.Add(files[i]);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return std::string(rules.Add(files.back()).message());
}

TEST(CodeFilesTest, WhatIsWrittenIsRead) {
  std::string bytes;
  v1::CodeFile script = File("run.sh", std::string("\0\xff", 2));
  script.set_executable(true);
  AppendCodeFile(script, &bytes);
  AppendCodeFile(File("src/odd\n\xff name", ""), &bytes);
  AppendCodeFile(Link("src/up", "../run.sh"), &bytes);
  std::vector<std::string> read;
  const absl::Status status = ReadCodeFiles(bytes, [&](const v1::CodeFile& file) {
    read.push_back(file.SerializeAsString());
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(read, ElementsAre(script.SerializeAsString(),
                                File("src/odd\n\xff name", "").SerializeAsString(),
                                Link("src/up", "../run.sh").SerializeAsString()));
}

TEST(CodeFilesTest, BytesThatAreNoFilesAreRefused) {
  std::string bytes;
  AppendCodeFile(File("a"), &bytes);
  const auto read = [](const std::string& text) {
    return std::string(
        ReadCodeFiles(text, [](const v1::CodeFile&) { return absl::OkStatus(); }).message());
  };
  EXPECT_THAT(read(""), IsEmpty());
  EXPECT_THAT(read(bytes + "\x7f"), HasSubstr("behind file 1"));
  EXPECT_THAT(read(bytes.substr(0, bytes.size() - 1)), HasSubstr("behind file 0"));
  EXPECT_THAT(read(std::string(100, '\xff')), HasSubstr("behind file 0"));
}

TEST(CodeFilesTest, PathsLeadNowhereButBelowTheFolder) {
  for (const std::string& path :
       {std::string(), std::string("/etc/passwd"), std::string(".."), std::string("../a"),
        std::string("a/../../b"), std::string("a/.."), std::string("./a"), std::string("a//b"),
        std::string("a/"), std::string("a\0b", 3), std::string(256, 'a'),
        absl::StrCat(std::string(4096, '/'))}) {
    EXPECT_THAT(Problem({File(path)}), HasSubstr("is no path below the folder")) << path;
  }
  for (const char* path : {"a", "..a", "a..", ".git", "-", "a b", "\n", "a/b/c"}) {
    EXPECT_THAT(Problem({File(path)}), IsEmpty()) << path;
  }
}

TEST(CodeFilesTest, NothingLiesBelowALinkOrAFile) {
  EXPECT_THAT(Problem({Link("d", "e"), File("d/f")}), HasSubstr("lies below"));
  EXPECT_THAT(Problem({File("d"), File("d-"), File("d/e/f")}), HasSubstr("lies below"));
  EXPECT_THAT(Problem({File("a"), File("a")}), HasSubstr("comes twice"));
  EXPECT_THAT(Problem({File("b"), File("a")}), HasSubstr("out of order"));
}

TEST(CodeFilesTest, LinksStayWithinTheFolder) {
  for (const char* target : {"b", "b/c", "../b", "../x/b"}) {
    EXPECT_THAT(Problem({Link("x/a", target)}), IsEmpty()) << target;
  }
  for (const char* target : {"/etc", "../../b", "b/../../c", "b/..", "", "./b", "b/", "/"}) {
    v1::CodeFile link = Link("x/a", target);
    if (link.link().empty()) continue;  // A file.
    EXPECT_THAT(Problem({link}), HasSubstr("which leads out of the folder")) << target;
  }
  EXPECT_THAT(Problem({Link("a", "..")}), HasSubstr("leads out"));
  v1::CodeFile both = Link("a", "b");
  both.set_data("x");
  EXPECT_THAT(Problem({both}), HasSubstr("is a link and a file"));
}

TEST(CodeFilesTest, FilesAreCounted) {
  CodeRules rules;
  for (int i = 0; i < kMaxCodeFiles; ++i) {
    ASSERT_TRUE(rules.Add(File(absl::StrCat("f", absl::Dec(i, absl::kZeroPad8)), "")).ok());
  }
  EXPECT_THAT(std::string(rules.Add(File("g")).message()), HasSubstr("one file too many"));
}

}  // namespace
}  // namespace paceline
