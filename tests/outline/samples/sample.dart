import 'dart:io';

typedef Reader = String Function(int part);

enum Color { red, green }

mixin Named {
  String get name => 'x';
}

abstract class Shelf<T> extends Object with Named {
  final int size;

  Shelf(this.size);

  Shelf.empty() : size = 0;

  factory Shelf.from(int n) {
    throw UnimplementedError();
  }

  T read(int part);

  Future<void> load({required String path}) async {
    void inner() {
      print(path);
    }

    inner();
  }

  set width(int value) {
    print(value);
  }

  int operator +(int other) => size + other;
}

extension Extra on String {
  int count() => length;
}

void main(List<String> arguments) {
  print(arguments);
}

int _hidden() => 1;
