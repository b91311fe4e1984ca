#include "common/atomic_file/atomic_file.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>

namespace paceline {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

int CountFiles(const std::string& directory) {
  DIR* dir = opendir(directory.c_str());
  int count = 0;
  while (const dirent* entry = readdir(dir)) count += entry->d_name[0] != '.';
  closedir(dir);
  return count;
}

std::string NewDirectory(const std::string& name) {
  const std::string directory = testing::TempDir() + "/" + name;
  mkdir(directory.c_str(), 0755);
  return directory;
}

TEST(AtomicFileTest, ReplacesTheContentsAndLeavesNothingElse) {
  const std::string directory = NewDirectory("replaces");
  ASSERT_TRUE(WriteFileAtomically(directory + "/f", {"old and long"}).ok());
  ASSERT_TRUE(WriteFileAtomically(directory + "/f", {"ne", "", "w"}).ok());
  EXPECT_EQ(Read(directory + "/f"), "new");
  EXPECT_EQ(CountFiles(directory), 1);
}

TEST(AtomicFileTest, MissingDirectoryIsNotFoundAndNamed) {
  const std::string path = testing::TempDir() + "/nowhere/f";
  const absl::Status status = WriteFileAtomically(path, {"x"});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find(path), absl::string_view::npos);
}

TEST(AtomicFileTest, FailedRenameRemovesTheTemporaryFile) {
  const std::string directory = NewDirectory("failed");
  NewDirectory("failed/f");
  NewDirectory("failed/f/inside");  // A directory that is not empty cannot be replaced.
  EXPECT_FALSE(WriteFileAtomically(directory + "/f", {"x"}).ok());
  EXPECT_EQ(CountFiles(directory), 1);
}

TEST(AtomicFileTest, PiecesAreSeenTogetherAtTheCommit) {
  const std::string directory = NewDirectory("pieces");
  absl::StatusOr<AtomicFile> created = AtomicFile::Create(directory + "/f");
  ASSERT_TRUE(created.ok()) << created.status();
  AtomicFile file = *std::move(created);
  ASSERT_TRUE(file.Append("????").ok());
  ASSERT_TRUE(file.Append("tail").ok());
  ASSERT_TRUE(file.Overwrite(0, "head").ok());
  ASSERT_TRUE(file.Append("!").ok());
  EXPECT_FALSE(std::ifstream(directory + "/f").good());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Read(directory + "/f"), "headtail!");
  EXPECT_EQ(CountFiles(directory), 1);
}

TEST(AtomicFileTest, WithoutACommitNothingIsLeft) {
  const std::string directory = NewDirectory("uncommitted");
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(directory + "/f");
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Append("x").ok());
  }
  EXPECT_EQ(CountFiles(directory), 0);
}

TEST(AtomicFileTest, SyncsTheDirectoryOfAPathThatNeedNotExist) {
  const std::string directory = NewDirectory("synced");
  EXPECT_TRUE(SyncDirectoryOf(directory + "/gone").ok());
  EXPECT_TRUE(SyncDirectoryOf("relative").ok());
  EXPECT_EQ(SyncDirectoryOf(directory + "/nowhere/f").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline
