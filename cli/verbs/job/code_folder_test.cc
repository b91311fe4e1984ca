#include "cli/verbs/job/code_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/verbs/job/ignore_file.h"
#include "common/job_spec/code_files.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(IgnoreFileTest, PatternsAreAsInAGitignore) {
  const auto file = IgnoreFile::Parse("# data\n\ndata/\n*.pt\n/top.txt\nsrc/*.bin\n[ab].log \r\n");
  ASSERT_TRUE(file.ok()) << file.status();
  for (const char* path : {"data", "x/data"}) {
    EXPECT_TRUE(file->Excludes(path, true)) << path;
    EXPECT_FALSE(file->Excludes(path, false)) << path;
  }
  for (const char* path : {"a.pt", "x/y/a.pt", "top.txt", "src/a.bin", "x/b.log"}) {
    EXPECT_TRUE(file->Excludes(path, false)) << path;
  }
  for (const char* path : {"a.py", "x/top.txt", "src/x/a.bin", "x/src/a.bin", "c.log", "data2"}) {
    EXPECT_FALSE(file->Excludes(path, false)) << path;
  }
}

TEST(IgnoreFileTest, WhatIsNotUnderstoodIsNotIgnored) {
  EXPECT_THAT(std::string(IgnoreFile::Parse("a\n!b\n").status().message()),
              HasSubstr(".pacelineignore:2: !b"));
  EXPECT_THAT(std::string(IgnoreFile::Parse("x/**/b").status().message()), HasSubstr(":1: x/**/b"));
}

class CodeFolderTest : public ::testing::Test {
 protected:
  CodeFolderTest() {
    std::string made = absl::StrCat(::testing::TempDir(), "/code-XXXXXX");
    folder_ = fs::canonical(::mkdtemp(made.data())).string();
    // Keeps git from finding a repository that contains the test itself.
    ::setenv("GIT_CEILING_DIRECTORIES", folder_.c_str(), 1);
    ::setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
  }
  ~CodeFolderTest() override { fs::remove_all(folder_); }

  void Write(const std::string& path, const std::string& text = "x") const {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path) << text;
  }
  void Git(const std::string& arguments) const {
    ASSERT_EQ(std::system(absl::StrCat("git -C ", folder_, " -c user.name=a -c user.email=a@b ",
                                       arguments, " >/dev/null")
                              .c_str()),
              0)
        << arguments;
  }
  // Contents by path; for links, their targets.
  std::map<std::string, std::string> Packed() const {
    const auto packed = PackFolder(folder_);
    EXPECT_TRUE(packed.ok()) << packed.status();
    std::map<std::string, std::string> files;
    const absl::Status read = ReadCodeFiles(packed->bytes, [&](const v1::CodeFile& file) {
      files[file.path()] = file.link().empty()
                               ? absl::StrCat(file.data(), file.executable() ? " x" : "")
                               : "-> " + file.link();
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    EXPECT_EQ(packed->code.files(), static_cast<int>(files.size()));
    EXPECT_EQ(packed->code.bytes(), static_cast<int64_t>(packed->bytes.size()));
    return files;
  }
  std::string Problem() const { return std::string(PackFolder(folder_).status().message()); }

  std::string folder_;
};

TEST_F(CodeFolderTest, WhatGitTracksTravelsAsItIsOnDisk) {
  Git("init -q");
  Write("train.py", "old");
  Write("gone.py");
  Write("src/odd 'name'\n.py");
  Write("run.sh");
  ::chmod((folder_ + "/run.sh").c_str(), 0755);
  fs::create_symlink("src", folder_ + "/link");
  Write(".gitignore", "*.log");
  Git("add -A");
  Git("commit -q -m all");
  Write("train.py", "new");
  Write("new.py");
  Write("a.log");
  fs::remove(folder_ + "/gone.py");
  const std::map<std::string, std::string> expected = {{".gitignore", "*.log"},
                                                       {"link", "-> src"},
                                                       {"run.sh", "x x"},
                                                       {"src/odd 'name'\n.py", "x"},
                                                       {"train.py", "new"}};
  EXPECT_EQ(Packed(), expected);
  const auto packed = PackFolder(folder_);
  EXPECT_THAT(packed->untracked, ElementsAre("new.py"));
  EXPECT_THAT(packed->missing, ElementsAre("gone.py"));
  EXPECT_EQ(packed->code.sha256(), PackFolder(folder_)->code.sha256());
}

TEST_F(CodeFolderTest, SubmodulesTravelToo) {
  const std::string other = folder_ + ".other";
  fs::create_directory(other);
  ASSERT_EQ(std::system(absl::StrCat("cd ", other,
                                     " && git init -q && echo y > lib.py && git add lib.py && git "
                                     "-c user.name=a -c user.email=a@b commit -q -m lib")
                            .c_str()),
            0);
  Git("init -q");
  Write("train.py");
  Git(absl::StrCat("-c protocol.file.allow=always submodule --quiet add ", other, " lib"));
  Git("add -A");
  fs::remove_all(other);
  EXPECT_EQ(Packed().count("lib/lib.py"), 1u);
  Git("submodule --quiet deinit --force lib");
  EXPECT_THAT(Problem(), HasSubstr("lib is a submodule that is not checked out"));
}

TEST_F(CodeFolderTest, AnIgnoreFileGoesBeforeGit) {
  Git("init -q");
  Write(".pacelineignore", "data/\n");
  Write("train.py");
  Write("data/large");
  Write(".venv/pyvenv.cfg");
  Write("src/__pycache__/a.pyc");
  const std::map<std::string, std::string> expected = {{".pacelineignore", "data/\n"},
                                                       {"train.py", "x"}};
  EXPECT_EQ(Packed(), expected);
}

TEST_F(CodeFolderTest, WithoutGitAllTravels) {
  Write("train.py");
  Write("a/b");
  EXPECT_EQ(Packed().size(), 2u);
  EXPECT_FALSE(PackFolder(folder_)->by_git);
}

TEST_F(CodeFolderTest, TooMuchNamesTheLargest) {
  Write("train.py");
  Write("data/a.npy");
  Write("data/b.npy");
  fs::resize_file(folder_ + "/data/a.npy", kMaxCodeBytes / 2);
  fs::resize_file(folder_ + "/data/b.npy", kMaxCodeBytes / 2 + 1);
  EXPECT_THAT(
      Problem(),
      HasSubstr("The largest: data/b.npy (16.0 MiB), data/a.npy (16.0 MiB), train.py (1 B)"));
  EXPECT_THAT(Problem(), HasSubstr(".pacelineignore"));
}

TEST_F(CodeFolderTest, WhatCannotTravelIsNamed) {
  EXPECT_THAT(Problem(), HasSubstr("has no file that would travel"));
  Write("train.py");
  fs::create_symlink("/etc/passwd", folder_ + "/out");
  EXPECT_THAT(Problem(), HasSubstr("out is a link to /etc/passwd, which leads out of the folder"));
  fs::remove(folder_ + "/out");
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Problem(), HasSubstr("pipe is no file, folder or link"));
  Write(".pacelineignore", "pipe");
  EXPECT_THAT(Problem(), IsEmpty());
}

}  // namespace
}  // namespace paceline
