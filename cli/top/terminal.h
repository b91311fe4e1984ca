// Takes over the whole terminal: keys arrive one by one and without echo, and the screen is
// restored at the end, even if a signal ends the process.
//
// Plain ANSI sequences and termios. Thread-compatible; one at a time in a process.
#ifndef CLI_TOP_TERMINAL_H_
#define CLI_TOP_TERMINAL_H_

#include <termios.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paceline {

class Terminal {
 public:
  struct Size {
    int width = 80;
    int height = 24;
  };

  // Takes over the terminal that `in` and `out` refer to; both stay open. FailedPrecondition if
  // they are no terminal.
  static absl::StatusOr<std::unique_ptr<Terminal>> Open(int in, int out);
  // Gives the terminal back.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;

  // Replaces the screen by the lines. Returns false if the terminal is gone.
  bool Draw(const std::vector<std::string>& lines);

  struct Input {
    std::string bytes;
    bool gone = false;  // Whether the terminal is gone.
  };
  // Waits for keys, for Wake, for a change of size, or until `duration` is over.
  Input Wait(absl::Duration duration);

  // Ends the present Wait, or the next one. From any thread.
  void Wake();

  // Gives the terminal back, stops the process as Ctrl-Z does, and takes the terminal over again.
  void Suspend();

 private:
  Terminal(int in, int out, int wake_in, int wake_out, const termios& before);
  void Take();
  void GiveBack();
  // Returns false if the terminal is gone.
  bool Write(const std::string& text);
  bool Read(std::string* bytes);

  const int in_;
  const int out_;
  const int wake_in_;   // Reading end of a pipe.
  const int wake_out_;  // Writing end.
  const termios before_;
};

}  // namespace paceline

#endif  // CLI_TOP_TERMINAL_H_
