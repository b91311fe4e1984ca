// Folders for tests of real processes.
#ifndef TESTS_INTEGRATION_NEW_FOLDER_H_
#define TESTS_INTEGRATION_NEW_FOLDER_H_

#include <stdlib.h>

#include <string>

namespace paceline {

// A folder of the test's own. `parent`: /dev/shm where the path has to be short; then the test
// removes it.
inline std::string NewFolder(const std::string& parent = getenv("TEST_TMPDIR")) {
  std::string pattern = parent + "/plXXXXXX";
  return mkdtemp(pattern.data());
}

}  // namespace paceline

#endif  // TESTS_INTEGRATION_NEW_FOLDER_H_
