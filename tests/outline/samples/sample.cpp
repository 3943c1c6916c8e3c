#include <string>

namespace shelves {

enum class Color { Red, Green };

template <typename T>
class Shelf : public std::string {
public:
    explicit Shelf(int size) : size_(size) {}
    virtual ~Shelf() = default;

    int read(int part) const {
        auto inner = [](int x) { return x; };
        return inner(part);
    }

    bool operator==(const Shelf &other) const { return size_ == other.size_; }

    void later(const std::string &path);

private:
    int size_;
};

template <typename T>
void Shelf<T>::later(const std::string &path)
{
    (void)path;
}

struct Pair {
    int first;
};

using Reader = int (*)(int);

}  // namespace shelves

int main(int argc, char **argv)
{
    return argc;
}
