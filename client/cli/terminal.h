#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <termios.h>

namespace tenure::cli {

struct ScreenSize {
  size_t columns = 80;
  size_t lines = 24;
};

// Of the terminal on stdout; or $COLUMNS and $LINES, or else 80 by 24.
ScreenSize TerminalSize();

// Takes the whole terminal for itself until it is destroyed, or the process is told to end: then
// the terminal is as it was before. One at a time. Thread-compatible.
class FullScreen {
 public:
  // REQUIRES: stdin and stdout are a terminal.
  FullScreen();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  // Shows these lines, and nothing else.
  void Show(const std::string& lines);

  enum class Wish { kNothing, kRedraw, kQuit };
  // Waits for a key, another size, a signal to end, or `patience`.
  Wish Wait(std::chrono::nanoseconds patience);

 private:
  termios before_{};
};

}  // namespace tenure::cli
